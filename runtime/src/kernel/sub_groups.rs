//! What clGetKernelSubGroupInfo answers: how work-groups would be divided into sub-groups.

use super::Kernel;

/// A work-group size, padded to three dimensions.
fn padded(local: &[usize]) -> [u64; 3] {
    std::array::from_fn(|axis| local.get(axis).map_or(1, |&size| size as u64))
}

impl Kernel {
    /// CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE.
    pub fn sub_group_size(&self, local: &[usize]) -> usize {
        self.info.code.sub_group_size_in(padded(local)) as usize
    }

    /// CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE.
    pub fn sub_group_count(&self, local: &[usize]) -> usize {
        usize::try_from(self.info.code.sub_groups_in(padded(local))).unwrap_or(usize::MAX)
    }

    /// CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT; zeroes if no work-group has so many.
    pub fn local_size_of_sub_groups(&self, count: usize) -> [usize; 3] {
        let required = self.info.signature.required_work_group_size.map(|size| size.map(|n| n as usize));
        let row = count.saturating_mul(self.info.code.sub_group_size.max(1) as usize);
        let candidates = match required {
            Some(required) => vec![required],
            // Where rows end within packs, each work-item is a sub-group.
            None => vec![[row, 1, 1], [1, count, 1]],
        };
        let fits = |local: &[usize; 3]| {
            let items = local.iter().fold(1_usize, |all, &size| all.saturating_mul(size));
            count > 0 && items <= self.max_group_size() && self.sub_group_count(local) == count
        };
        candidates.into_iter().find(fits).unwrap_or([0; 3])
    }

    /// CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL: what the program asks for, or 0.
    pub fn required_sub_group_size(&self) -> usize {
        self.info.signature.required_sub_group_size.unwrap_or(0) as usize
    }

    /// CL_KERNEL_MAX_NUM_SUB_GROUPS.
    pub fn max_sub_groups(&self) -> usize {
        match self.info.signature.required_work_group_size {
            Some(required) => self.sub_group_count(&required.map(|size| size as usize)),
            None => self.max_group_size(),
        }
    }
}
