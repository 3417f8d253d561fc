//! The C API through the ICD loader, an object at a time: what it does, and how it refuses what the specification
//! forbids.

mod atomics;
mod commands;
mod conversions;
mod device_queues;
mod device_trees;
mod errors;
mod events;
mod extensions;
mod faults;
mod forged;
mod generic;
mod half;
mod handles;
mod images;
mod images_of_2_0;
mod intermediate;
mod kernels;
mod lent;
mod math_options;
mod memory;
mod pipes;
mod platform;
mod printf;
mod programs;
mod setup;
mod sources;
mod sub_devices;
mod sub_groups;
mod svm;
mod threads;
mod timeouts;
mod usm;
mod variables;
mod versions;
mod work_groups;

use spirula_tests::isolate::{self, ExpectedFailures};
use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        platform::tests(),
        handles::tests(),
        errors::tests(),
        memory::tests(),
        images::tests(),
        images_of_2_0::tests(),
        intermediate::tests(),
        programs::tests(),
        forged::tests(),
        sources::tests(),
        generic::tests(),
        variables::tests(),
        versions::tests(),
        kernels::tests(),
        printf::tests(),
        math_options::tests(),
        conversions::tests(),
        half::tests(),
        events::tests(),
        extensions::tests(),
        faults::tests(),
        timeouts::tests(),
        usm::tests(),
        commands::tests(),
        sub_devices::tests(),
        svm::tests(),
        atomics::tests(),
        pipes::tests(),
        device_queues::tests(),
        device_trees::tests(),
        threads::tests(),
        lent::tests(),
        work_groups::tests(),
        sub_groups::tests(),
    ];
    isolate::main(tests.into_iter().flatten().collect(), ExpectedFailures::default())
}
