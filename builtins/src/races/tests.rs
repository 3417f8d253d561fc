use super::*;

/// A launch on 64 bytes of global memory and as many of local memory, in groups of 4.
struct Bench {
    records: Vec<Record>,
    _tags: Box<AtomicU32>,
    cells: Vec<Cell>,
    _locals: Vec<LocalShadow>,
    region: Box<Region>,
    launch: Box<Races>,
    teams: Vec<Team>,
}

const ITEMS: u64 = 4;
const START: u64 = 4096;

fn cells(count: usize) -> Vec<Cell> {
    (0..count).map(|_| Cell::default()).collect()
}

fn address<T>(of: &T) -> u64 {
    std::ptr::from_ref(of) as u64
}

impl Bench {
    fn new() -> Bench {
        let records: Vec<Record> = (0..8).map(|_| Record::default()).collect();
        let tags = Box::new(AtomicU32::new(7));
        let cells = cells(2 * (16 + 64));
        let at = |number: usize| address(&cells[number]);
        let region = Box::new(Region { start: START, size: 64, grains: at(0), bytes: at(16) });
        let locals = vec![
            LocalShadow { memory: AtomicU64::new(0), grains: at(80), bytes: at(96) },
            LocalShadow::default(),
        ];
        let launch = Box::new(Races {
            records: records.as_ptr() as u64,
            record_count: 8,
            tags: address(&*tags),
            tag: 6,
            local_size: 64,
            locals: locals.as_ptr() as u64,
            local_count: 2,
            regions: address(&*region),
            region_count: 1,
            data: 0,
        });
        let teams = (0..4).map(|_| Team::default()).collect();
        let mut bench = Bench { records, _tags: tags, cells, _locals: locals, region, launch, teams };
        (0..3).for_each(|group| bench.begin(group));
        bench
    }

    fn begin(&mut self, group: u64) {
        let team = address(&self.teams[group as usize]);
        // Local memory is where the first group has it.
        let local = if group == 0 { 256 } else { 256 + 1024 * group };
        spirula_races_begin(address(&*self.launch), team, local, group, ITEMS);
    }

    /// A work-item does something with bytes of global memory at a site.
    fn global(&self, item: u64, site: u64, what: u64, (at, size): (u64, u64), value: u64) {
        let team = address(&self.teams[(item / ITEMS) as usize]);
        let what = site | what | size << what::SIZE_SHIFT;
        spirula_races_global(team, address(&*self.region), START + at, what, item % ITEMS, value);
    }

    fn write(&self, item: u64, site: u64, value: u64) {
        self.global(item, site, what::WRITES | what::VALUE, (8, 4), value);
    }

    fn read(&self, item: u64, site: u64) {
        self.global(item, site, 0, (8, 4), 0);
    }

    fn atomic(&self, item: u64, site: u64) {
        self.global(item, site, what::WRITES | what::ATOMIC, (8, 4), 0);
    }

    fn wait(&self, group: usize, fences: u64) {
        (0..ITEMS).for_each(|_| spirula_races_wait(address(&self.teams[group]), ITEMS, fences));
    }

    /// Each site's findings and remarks.
    fn told(&self) -> Vec<(usize, u64, u64)> {
        let told =
            self.records.iter().enumerate().map(|(site, record)| {
                (site, record.count.load(Relaxed), std::hint::black_box(record).item[0])
            });
        told.filter(|(_, found, same)| found + same > 0).collect()
    }
}

#[test]
fn who_reads_what_another_one_writes_races() {
    let bench = Bench::new();
    bench.write(0, 1, 5);
    bench.read(0, 2);
    bench.write(0, 1, 6);
    assert_eq!(bench.told(), []);
    bench.read(1, 2);
    assert_eq!(bench.told(), [(2, 1, 0)]);
    assert_eq!(std::hint::black_box(&bench.records)[2].values, [1 << 32, 1, START + 8]);
    // The other way round, and told at the later site as well.
    let bench = Bench::new();
    (0..3).for_each(|item| bench.read(item, 2));
    assert_eq!(bench.told(), []);
    bench.write(3, 1, 5);
    assert_eq!(bench.told(), [(2, 1, 0)]);
}

#[test]
fn groups_have_no_order() {
    for [first, second] in [[0, 4], [4, 0]] {
        let bench = Bench::new();
        bench.write(first, 1, 5);
        bench.wait(0, 3);
        bench.wait(1, 3);
        bench.read(second, 2);
        assert_eq!(bench.told(), [(2, 1, 0)]);
    }
    // Many read, and then one of the first group writes.
    let bench = Bench::new();
    [0, 4, 8, 1, 5].into_iter().for_each(|item| bench.read(item, 2));
    bench.wait(0, 3);
    bench.write(0, 1, 1);
    assert_eq!(bench.told(), [(2, 1, 0)]);
    assert_ne!(
        std::hint::black_box(&bench.records)[2].values[1] / ITEMS,
        0,
        "the reader is of another group"
    );
}

#[test]
fn barriers_order_what_their_flags_say() {
    for (fences, races) in [(0, true), (1, true), (2, false), (3, false)] {
        let bench = Bench::new();
        bench.write(0, 1, 5);
        bench.wait(0, fences);
        bench.read(1, 2);
        assert_eq!(!bench.told().is_empty(), races, "{fences}");
    }
    for (fences, races) in [(0, true), (1, false), (2, true), (3, false)] {
        let bench = Bench::new();
        let team = address(&bench.teams[0]);
        let what = |site: u64, what: u64| site | what | 4 << what::SIZE_SHIFT;
        spirula_races_local(team, 260, what(1, what::WRITES | what::VALUE), 0, 5);
        bench.wait(0, fences);
        spirula_races_any(team, 260, what(2, 0), 1, 0);
        assert_eq!(!bench.told().is_empty(), races, "{fences}");
    }
}

#[test]
fn the_same_value_twice_is_a_remark() {
    let bench = Bench::new();
    bench.write(0, 1, 5);
    bench.write(1, 1, 5);
    bench.write(4, 2, 5);
    assert_eq!(bench.told(), [(1, 0, 1), (2, 0, 1)]);
    bench.write(5, 3, 6);
    assert_eq!(bench.told().last(), Some(&(3, 1, 0)));
}

#[test]
fn atomics_race_with_others_only() {
    let bench = Bench::new();
    [0, 1, 4, 5].into_iter().for_each(|item| bench.atomic(item, 1));
    assert_eq!(bench.told(), []);
    bench.read(8, 2);
    assert_eq!(bench.told(), [(2, 1, 0)]);
    let bench = Bench::new();
    bench.write(0, 1, 0);
    bench.wait(0, 3);
    bench.atomic(0, 2);
    bench.atomic(1, 2);
    assert_eq!(bench.told(), []);
    bench.atomic(4, 3);
    assert_eq!(bench.told(), [(3, 1, 0)], "what was plain once stays so");
}

#[test]
fn what_was_acquired_is_ordered() {
    let flag = |bench: &Bench, item: u64, what: u64| {
        let team = address(&bench.teams[(item / ITEMS) as usize]);
        bench.global(item, 4, what::ATOMIC | what::WRITES, (0, 4), 0);
        spirula_races_observe(team, address(&*bench.region), START, what, item % ITEMS);
    };
    for (acquires, fence, races) in [(0, false, true), (what::ACQUIRES, false, false), (0, true, false)] {
        let bench = Bench::new();
        bench.write(0, 1, 5);
        flag(&bench, 0, acquires);
        flag(&bench, 4, acquires);
        if fence {
            spirula_races_fence(address(&bench.teams[1]), 0);
        }
        bench.read(5, 2);
        assert_eq!(!bench.told().is_empty(), races, "{acquires} {fence}");
    }
}

#[test]
fn bytes_are_told_apart() {
    let bench = Bench::new();
    let byte = |item: u64, at: u64| bench.global(item, 1, what::WRITES | what::VALUE, (at, 1), item);
    (0..8).for_each(|item| byte(item, item));
    assert_eq!(bench.told(), []);
    bench.global(1, 2, 0, (0, 2), 0);
    assert_eq!(bench.told(), [(2, 1, 0)]);
    // Four bytes at once, and then one of them.
    let bench = Bench::new();
    bench.global(0, 1, what::WRITES | what::VALUE, (0, 8), 0x0807_0605_0403_0201);
    bench.global(1, 2, what::WRITES | what::VALUE, (2, 1), 3);
    assert_eq!(bench.told(), [(2, 0, 1)]);
    bench.global(1, 3, what::WRITES | what::VALUE, (6, 2), 0x0807);
    bench.global(2, 4, 0, (3, 1), 0);
    assert_eq!(bench.told(), [(2, 0, 1), (3, 0, 1), (4, 1, 0)]);
}

#[test]
fn values_come_from_wherever_they_are() {
    let bench = Bench::new();
    let source: [u32; 2] = [0x0101_0101, 2];
    bench.global(0, 1, what::WRITES | what::COPIES, (0, 8), address(&source));
    bench.global(1, 2, what::WRITES | what::FILLS, (0, 4), 1);
    assert_eq!(bench.told(), [(2, 0, 1)]);
    bench.global(1, 3, what::WRITES | what::FILLS, (4, 4), 1);
    assert_eq!(bench.told(), [(2, 0, 1), (3, 1, 0)]);
}

#[test]
fn a_new_group_knows_nothing_of_the_local_memory_of_the_last_one() {
    let mut bench = Bench::new();
    let what = 1 | what::WRITES | what::VALUE | 4 << what::SIZE_SHIFT;
    spirula_races_local(address(&bench.teams[0]), 260, what, 0, 5);
    let team = address(&bench.teams[0]);
    spirula_races_begin(address(&*bench.launch), team, 256, 7, ITEMS);
    spirula_races_local(team, 260, what, 1, 6);
    assert_eq!(bench.told(), []);
    spirula_races_local(team, 260, what, 2, 7);
    assert_eq!(bench.told(), [(1, 1, 0)]);
    // Beyond the end there is nothing.
    spirula_races_local(team, 256 + 62, what, 2, 7);
    bench.cells.clear();
}
