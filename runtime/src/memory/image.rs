//! Images: what an application describes, and what that becomes in memory.

use super::format::{ImageFormat, order, supported};
use super::rect::Placement;
use super::{Mem, MemKind};
use crate::context::Context;
use crate::error::{Result, Status};
use spirula_interface::ImageDescriptor;
use spirula_interface::program::ImageKind;
use std::sync::Arc;

/// A `cl_image_desc`. Sizes that the kind lacks are ignored.
#[derive(Clone, Debug)]
pub struct ImageDescription {
    /// From CL_MEM_OBJECT_IMAGE*; the caller answers CL_INVALID_IMAGE_DESCRIPTOR for other types.
    pub kind: ImageKind,
    /// Texels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices of a 3-D image.
    pub depth: usize,
    /// Layers of an array.
    pub array_size: usize,
    /// Bytes, or 0; only with a host pointer.
    pub row_pitch: usize,
    /// Bytes, or 0; only with a host pointer.
    pub slice_pitch: usize,
    /// Must be 0.
    pub num_mip_levels: u32,
    /// Must be 0.
    pub num_samples: u32,
    /// `mem_object`: the buffer of a 1-D image buffer or a 2-D image, or the 2-D image that another one is a view of.
    pub parent: Option<Arc<Mem>>,
}

/// What `clGetImageInfo` tells.
#[derive(Debug)]
pub struct ImageInfo {
    /// CL_MEM_TYPE.
    pub kind: ImageKind,
    /// CL_IMAGE_FORMAT.
    pub format: ImageFormat,
    /// CL_IMAGE_ELEMENT_SIZE.
    pub element_size: usize,
    /// CL_IMAGE_WIDTH, _HEIGHT and _DEPTH as OpenCL reports them: 0 where the kind has none.
    pub width: usize,
    /// See `width`.
    pub height: usize,
    /// See `width`.
    pub depth: usize,
    /// CL_IMAGE_ARRAY_SIZE, 0 when no array.
    pub array_size: usize,
    /// CL_IMAGE_ROW_PITCH.
    pub row_pitch: usize,
    /// CL_IMAGE_SLICE_PITCH; 0 for 1-D and 2-D images.
    pub slice_pitch: usize,
    /// CL_MEM_ASSOCIATED_MEMOBJECT: a buffer (CL_IMAGE_BUFFER), or the image that this is a view of.
    pub parent: Option<Arc<Mem>>,
}

/// The channel orders that a view may have, each with the one of the image behind it.
const VIEWS: [(u32, u32); 5] = [
    (order::SBGRA, order::BGRA),
    (order::BGRA, order::SBGRA),
    (order::SRGBA, order::RGBA),
    (order::RGBA, order::SRGBA),
    (order::DEPTH, order::R),
];

/// Row and slice pitch in bytes.
pub(crate) type Pitches = (usize, usize);

/// Whether a kind has rows, slices (of a 3-D image), layers.
fn axes(kind: ImageKind) -> (bool, bool, bool) {
    match kind {
        ImageKind::Image1d | ImageKind::Image1dBuffer => (false, false, false),
        ImageKind::Image1dArray => (false, false, true),
        ImageKind::Image2d => (true, false, false),
        ImageKind::Image2dArray => (true, false, true),
        ImageKind::Image3d => (true, true, false),
    }
}

impl ImageInfo {
    /// Whether it consists of more than one plane or row: a 3D image or an array.
    pub fn has_slices(&self) -> bool {
        matches!(self.kind, ImageKind::Image3d | ImageKind::Image2dArray | ImageKind::Image1dArray)
    }

    /// Checks a description (OpenCL 1.2, 5.3.1.2) and lays the image out tightly; also returns the pitches of the host's
    /// memory, which only a host pointer may bring.
    pub(crate) fn new(
        context: &Context,
        format: ImageFormat,
        description: &ImageDescription,
        has_host_ptr: bool,
    ) -> Result<(ImageInfo, Pitches)> {
        let element_size = format.checked_element_size()?;
        if !supported(description.kind).contains(&format) {
            return Err(
                Status::ImageFormatNotSupported.because(format!("{format:x?} of {:?}", description.kind))
            );
        }
        let (has_rows, has_slices, has_layers) = axes(description.kind);
        let pick = |has: bool, value: usize| if has { value } else { 0 };
        let mut info = ImageInfo {
            kind: description.kind,
            format,
            element_size,
            width: description.width,
            height: pick(has_rows, description.height),
            depth: pick(has_slices, description.depth),
            array_size: pick(has_layers, description.array_size),
            row_pitch: 0,
            slice_pitch: 0,
            parent: description.parent.clone(),
        };
        info.check_size(context)?;
        let (needs_parent, may_have_parent) = match description.kind {
            ImageKind::Image1dBuffer => (true, true),
            ImageKind::Image2d => (false, true),
            _ => (false, false),
        };
        let wrong = |what: &str| Err(Status::InvalidImageDescriptor.because(what));
        if description.num_mip_levels != 0 || description.num_samples != 0 {
            return wrong("mip levels and samples must be 0");
        }
        if needs_parent && description.parent.is_none() || !may_have_parent && description.parent.is_some() {
            return wrong("a memory object belongs to a 1-D image buffer or a 2-D image");
        }
        let tight = info.tight_pitches(0, 0, info.extent());
        (info.row_pitch, info.slice_pitch) = (tight.0, if has_slices || has_layers { tight.1 } else { 0 });
        let host = info.check_pitches(description.row_pitch, description.slice_pitch, has_host_ptr)?;
        let Some(parent) = &description.parent else { return Ok((info, host)) };
        match &parent.kind {
            MemKind::Image(viewed) => {
                info.check_view(viewed, description.row_pitch)?;
                Ok((info.with_pitches((viewed.row_pitch, 0)), host))
            }
            _ => {
                let info = info.with_pitches(host);
                info.check_buffer(parent)?;
                Ok((info, host))
            }
        }
    }

    /// CL_INVALID_IMAGE_FORMAT_DESCRIPTOR unless this can be a view of another image, whose texels it shows in another channel
    /// order (OpenCL 3.0, 5.3.1.3).
    fn check_view(&self, viewed: &ImageInfo, row_pitch: usize) -> Result<()> {
        let wrong = |what: String| Err(Status::InvalidImageFormatDescriptor.because(what));
        if (self.kind, viewed.kind) != (ImageKind::Image2d, ImageKind::Image2d) {
            return wrong(format!("{:?} as a view of {:?}; both must be 2-D images", self.kind, viewed.kind));
        }
        let same_size = (self.width, self.height) == (viewed.width, viewed.height);
        if !same_size || ![0, viewed.row_pitch].contains(&row_pitch) {
            return wrong("a view of an image with other sizes or another pitch".to_string());
        }
        let orders = (self.format.channel_order, viewed.format.channel_order);
        if !VIEWS.contains(&orders) || self.format.channel_type != viewed.format.channel_type {
            return wrong(format!("{:x?} as a view of {:x?}", self.format, viewed.format));
        }
        Ok(())
    }

    /// What an image over a buffer must be: CL_INVALID_IMAGE_DESCRIPTOR, CL_INVALID_IMAGE_SIZE.
    fn check_buffer(&self, buffer: &Mem) -> Result<()> {
        if !buffer.is_buffer() {
            return Err(
                Status::InvalidImageDescriptor.because(format!("an image over {}", buffer.kind.name()))
            );
        }
        match self.byte_size() <= buffer.size {
            true => Ok(()),
            false => Err(Status::InvalidImageSize.because(format!(
                "an image of {} bytes over a buffer of {}",
                self.byte_size(),
                buffer.size
            ))),
        }
    }

    /// CL_INVALID_IMAGE_DESCRIPTOR for empty images ("image_width … must be ≥ 1"), CL_INVALID_IMAGE_SIZE for those beyond the
    /// device's limits.
    fn check_size(&self, context: &Context) -> Result<()> {
        let Some(limits) = &context.device().info.images else {
            return Err(Status::InvalidOperation.because("the device has no images"));
        };
        let (has_rows, has_slices, has_layers) = axes(self.kind);
        let most = match self.kind {
            ImageKind::Image1dBuffer => [limits.max_buffer, 1, 1],
            ImageKind::Image3d => limits.max_3d,
            _ => [limits.max_2d[0], limits.max_2d[1], 1],
        };
        let sizes = [
            (true, self.width, most[0]),
            (has_rows, self.height, most[1]),
            (has_slices, self.depth, most[2]),
            (has_layers, self.array_size, limits.max_array),
        ];
        let any =
            |wrong: fn(usize, usize) -> bool| sizes.iter().any(|&(has, size, most)| has && wrong(size, most));
        let status = match () {
            () if any(|size, _| size == 0) => Status::InvalidImageDescriptor,
            () if any(|size, most| size > most) => Status::InvalidImageSize,
            () => return Ok(()),
        };
        Err(status.because(format!(
            "{:?} of {} x {} x {}, {} layers",
            self.kind, self.width, self.height, self.depth, self.array_size
        )))
    }

    /// CL_INVALID_IMAGE_DESCRIPTOR for pitches that are too small, crooked, beyond any memory, or come without a host pointer.
    fn check_pitches(&self, row: usize, slice: usize, has_host_ptr: bool) -> Result<Pitches> {
        let wrong = |what: &str| Err(Status::InvalidImageDescriptor.because(what));
        if !has_host_ptr && (row != 0 || slice != 0) && self.parent.is_none() {
            return wrong("pitches without a host pointer");
        }
        let tight = self.tight_pitches(row, 0, self.extent());
        if row != 0 && (row < self.width * self.element_size || !row.is_multiple_of(self.element_size)) {
            return wrong("the row pitch is shorter than a row, or no multiple of the element's size");
        }
        if slice != 0 && self.slice_pitch != 0 && (slice < tight.1 || !slice.is_multiple_of(tight.0)) {
            return wrong("the slice pitch is shorter than a slice, or no multiple of the row pitch");
        }
        let pitches = self.tight_pitches(row, slice, self.extent());
        let end =
            self.host_placement(pitches.0, pitches.1, self.extent()).end(self.byte_region(self.extent()));
        // Of a last row or slice there is as much as of the others where the host's memory is the image.
        let size = self.byte_size_with(pitches);
        match end.zip(size).is_some_and(|(end, size)| end.max(size) <= isize::MAX as usize) {
            true => Ok(pitches),
            false => wrong("with these pitches the image is larger than any memory"),
        }
    }

    /// The pitches with 0 replaced by what a tight box of `region` texels has.
    pub(crate) fn tight_pitches(&self, row: usize, slice: usize, region: [usize; 3]) -> Pitches {
        let row = if row == 0 { region[0].saturating_mul(self.element_size) } else { row };
        let rows = if self.kind == ImageKind::Image1dArray { 1 } else { region[1] };
        (row, if slice == 0 { row.saturating_mul(rows) } else { slice })
    }

    pub(crate) fn with_pitches(self, (row_pitch, slice_pitch): Pitches) -> ImageInfo {
        let slice_pitch = if self.slice_pitch == 0 { 0 } else { slice_pitch };
        ImageInfo { row_pitch, slice_pitch, ..self }
    }

    /// Texels along the three axes of an origin: a 1-D array's second axis is its layers, a 2-D array's third.
    pub(crate) fn extent(&self) -> [usize; 3] {
        match self.kind {
            ImageKind::Image1dArray => [self.width, self.array_size, 1],
            _ => [self.width, self.height.max(1), self.depth.max(self.array_size).max(1)],
        }
    }

    /// CL_MEM_SIZE.
    pub(crate) fn byte_size(&self) -> usize {
        self.byte_size_with((self.row_pitch, self.slice_pitch)).unwrap_or(usize::MAX)
    }

    /// What CL_MEM_SIZE would be with other pitches; None if it's too much to say.
    fn byte_size_with(&self, (row_pitch, slice_pitch): Pitches) -> Option<usize> {
        let [_, rows, slices] = self.extent();
        match self.kind {
            ImageKind::Image1dArray => slice_pitch.checked_mul(rows),
            _ if self.slice_pitch != 0 => slice_pitch.checked_mul(slices),
            _ => row_pitch.checked_mul(rows),
        }
    }

    /// A region of texels as bytes, rows, slices.
    pub(crate) fn byte_region(&self, region: [usize; 3]) -> [usize; 3] {
        [region[0] * self.element_size, region[1], region[2]]
    }

    /// Where a box at `origin` lies in the image's memory.
    pub(crate) fn placement(&self, origin: [usize; 3]) -> Placement {
        let place = self.host_placement(self.row_pitch, self.slice_pitch, self.extent());
        Placement { offset: place.offset_of(origin, self.element_size), ..place }
    }

    /// How a box of `region` texels with these pitches (0: tight) lies in the host's memory.
    pub(crate) fn host_placement(
        &self,
        row_pitch: usize,
        slice_pitch: usize,
        region: [usize; 3],
    ) -> Placement {
        let (row_pitch, slice_pitch) = self.tight_pitches(row_pitch, slice_pitch, region);
        match self.kind {
            // Its second axis steps by layers.
            ImageKind::Image1dArray => Placement { offset: 0, row_pitch: slice_pitch, slice_pitch },
            _ => Placement { offset: 0, row_pitch, slice_pitch },
        }
    }

    /// What kernels see, with the first texel at `data`.
    pub(crate) fn descriptor(&self, data: *mut u8) -> ImageDescriptor {
        let texels = |count: usize| count.max(1) as u32;
        ImageDescriptor {
            data,
            width: texels(self.width),
            height: texels(self.height),
            depth: texels(self.depth),
            array_size: texels(self.array_size),
            row_pitch: self.row_pitch as u64,
            slice_pitch: self.slice_pitch as u64,
            channel_order: self.format.channel_order,
            channel_type: self.format.channel_type,
        }
    }

    /// CL_INVALID_VALUE unless a box of texels is inside and not empty.
    pub(crate) fn check_region(&self, origin: [usize; 3], region: [usize; 3]) -> Result<()> {
        let extent = self.extent();
        let inside = |axis: usize| {
            region[axis] > 0 && origin[axis].checked_add(region[axis]).is_some_and(|end| end <= extent[axis])
        };
        match (0..3).all(inside) {
            true => Ok(()),
            false => Err(Status::InvalidValue
                .because(format!("texels {origin:?} + {region:?} of an image of {extent:?}"))),
        }
    }
}
