//! Colours for iteration counts, as a PNG file.

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

/// The sea around the set: deep blue over white and amber to black, by the count's logarithm.
const STOPS: [(f32, [f32; 3]); 6] = [
    (0.00, [4.0, 10.0, 46.0]),
    (0.22, [24.0, 82.0, 158.0]),
    (0.42, [226.0, 244.0, 255.0]),
    (0.60, [255.0, 178.0, 38.0]),
    (0.80, [128.0, 26.0, 12.0]),
    (1.00, [8.0, 2.0, 16.0]),
];

/// Writes the picture, making its folder.
pub fn write(path: &Path, width: usize, counts: &[i32], limit: i32) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), width as u32, (counts.len() / width) as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    let pixels: Vec<u8> = counts.iter().flat_map(|&n| colour(n, limit)).collect();
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(())
}

fn colour(count: i32, limit: i32) -> [u8; 3] {
    if count >= limit {
        return [0; 3];
    }
    let at = (1.0 + count as f32).ln() / (1.0 + limit as f32).ln();
    let upper = STOPS.iter().position(|(stop, _)| *stop >= at).unwrap_or(STOPS.len() - 1).max(1);
    let ((low, from), (high, to)) = (STOPS[upper - 1], STOPS[upper]);
    let part = ((at - low) / (high - low)).clamp(0.0, 1.0);
    std::array::from_fn(|i| (from[i] + (to[i] - from[i]) * part) as u8)
}
