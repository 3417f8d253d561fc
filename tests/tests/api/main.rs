//! The C API through the ICD loader, an object at a time: what it does, and how it refuses what the specification
//! forbids.

mod atomics;
mod blocks;
mod both_devices;
mod command_buffers;
mod commands;
mod conversions;
mod device_queues;
mod device_trees;
mod divisions;
mod doubles;
mod errors;
mod escapes;
mod events;
mod extensions;
mod faults;
mod forged;
mod generic;
mod half;
mod handles;
mod host_extensions;
mod idioms;
mod image_formats;
mod images;
mod images_of_2_0;
mod indices;
mod intermediate;
mod isolation;
mod kernels;
mod lent;
mod levels;
mod linear_memory;
mod loops;
mod math_options;
mod memory;
mod pipes;
mod platform;
mod printf;
mod programs;
mod semaphores;
mod setup;
mod sources;
mod sub_devices;
mod sub_groups;
mod svm;
mod tables;
mod threads;
mod timeouts;
mod usm;
mod variables;
mod vectors;
mod versions;
mod work_groups;

use spirula_tests::isolate::{self, ExpectedFailures, Test};
use std::process::ExitCode;

/// Whether a test tells more if it is run in the isolated mode, too: of its module memory, launches or their ends are the subject.
fn is_for_isolation(test: &str) -> bool {
    const MODULES: [&str; 20] = [
        "atomics",
        "command_buffers",
        "commands",
        "device_queues",
        "device_trees",
        "events",
        "faults",
        "images",
        "images_of_2_0",
        "kernels",
        "memory",
        "pipes",
        "printf",
        "semaphores",
        "sub_devices",
        "svm",
        "threads",
        "timeouts",
        "usm",
        "variables",
    ];
    // A million launches take half a minute there.
    !test.contains("a_million") && MODULES.iter().any(|module| test.starts_with(&format!("{module}::")))
}

/// Whether a test is of what kernels compute and use, which the device of 32 bits computes and has as well.
fn is_for_32_bits(test: &str) -> bool {
    const MODULES: [&str; 19] = [
        "atomics",
        "command_buffers",
        "commands",
        "conversions",
        "device_queues",
        "device_trees",
        "events",
        "generic",
        "half",
        "images",
        "images_of_2_0",
        "memory",
        "pipes",
        "printf",
        "semaphores",
        "sub_groups",
        "threads",
        "variables",
        "work_groups",
    ];
    // These need what is there for 64 bits only, or the application's own memory, or tell what is otherwise there.
    const OTHERS: [&str; 8] = [
        "command_buffers::shared_memory",
        "commands::native_kernels",
        "commands::native_kernel_errors",
        "events::profiling_times",
        "events::profiling_times_enclose_the_work",
        "images::blur",
        "images::every_clangs_opaque_types",
        "images_of_2_0::depth_of_spir",
    ];
    !OTHERS.contains(&test) && MODULES.iter().any(|module| test.starts_with(&format!("{module}::")))
}

fn main() -> ExitCode {
    let modules = [
        platform::tests(),
        handles::tests(),
        errors::tests(),
        memory::tests(),
        image_formats::tests(),
        images::tests(),
        images_of_2_0::tests(),
        idioms::tests(),
        indices::tests(),
        intermediate::tests(),
        programs::tests(),
        forged::tests(),
        sources::tests(),
        generic::tests(),
        variables::tests(),
        tables::tests(),
        vectors::tests(),
        versions::tests(),
        kernels::tests(),
        printf::tests(),
        math_options::tests(),
        conversions::tests(),
        half::tests(),
        events::tests(),
        extensions::tests(),
        host_extensions::tests(),
        faults::tests(),
        timeouts::tests(),
        usm::tests(),
        command_buffers::tests(),
        semaphores::tests(),
        commands::tests(),
        sub_devices::tests(),
        svm::tests(),
        atomics::tests(),
        pipes::tests(),
        device_queues::tests(),
        device_trees::tests(),
        threads::tests(),
        lent::tests(),
        linear_memory::on_the_device(),
        divisions::tests(),
        doubles::tests(),
        levels::tests(),
        loops::tests(),
        escapes::on_the_device(),
        both_devices::on_both(),
        work_groups::tests(),
        sub_groups::tests(),
        blocks::tests(),
    ];
    let mut tests: Vec<Test> = modules.into_iter().flatten().collect();
    let again: Vec<Test> =
        tests.iter().filter(|test| is_for_isolation(&test.name)).map(Test::isolated).collect();
    let narrow: Vec<Test> =
        tests.iter().filter(|test| is_for_32_bits(&test.name)).map(Test::on_32_bits).collect();
    tests.extend(again);
    tests.extend(narrow);
    tests.extend(isolation::limited().iter().map(Test::isolated));
    isolate::main(tests, ExpectedFailures::default())
}
