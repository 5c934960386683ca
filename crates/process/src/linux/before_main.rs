//! The constructor that turns a process into a keeper before the host's `main` begins.
//!
//! The loader calls the functions of `.init_array` before `main`, in the first and only thread. The standard library supports
//! this well enough for a keeper: environment, allocation, files and clocks need nothing that `main` sets up. It works the same
//! way in a statically linked program, with glibc or musl: the constructor does not use the arguments that only glibc passes.

use std::ffi::c_void;

use crate::keeper;

/// 101 is the first priority that is not reserved. Ours runs after the standard library's own constructor and before those of
/// the host, which may start threads.
#[used]
#[expect(unsafe_code, reason = "only a section that the loader reads begins before `main`")]
// SAFETY: the section holds pointers to functions of this form, and the loader calls each once.
#[unsafe(link_section = ".init_array.00101")]
static CONSTRUCTOR: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // It catches a panic itself and ends the process.
    keeper::become_keeper_if_asked();
}

/// Returns whether the constructor is in the executed program itself, and not in a library that was loaded later.
pub(crate) fn is_in_main_program() -> bool {
    // Reading it also keeps the linker from dropping it: callers of this function need it.
    let constructor = std::hint::black_box(CONSTRUCTOR);
    let mut search = ObjectSearch { address: constructor as usize, found: false };
    #[expect(unsafe_code, reason = "no safe call lists the loaded objects")]
    // SAFETY: the callback gets the pointer passed here, and only during the call.
    unsafe {
        libc::dl_iterate_phdr(Some(look), (&raw mut search).cast());
    }
    search.found
}

struct ObjectSearch {
    address: usize,
    found: bool,
}

/// Looks at the first object, which is the executed program, and ends the search.
#[expect(unsafe_code, reason = "the C library calls it with pointers")]
unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> libc::c_int {
    // SAFETY: the C library passes an object that it describes correctly, and the pointer that we gave it.
    unsafe {
        let (object, search) = (&*object, &mut *search.cast::<ObjectSearch>());
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum));
        search.found = headers.iter().any(|header| {
            // One comparison for both limits: an address below `start` wraps to a huge number.
            let start = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD && search.address.wrapping_sub(start) < header.p_memsz as usize
        });
    }
    // Any value but 0 ends the iteration (dl_iterate_phdr(3)).
    1
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_program_has_the_constructor() {
        assert!(super::is_in_main_program());
    }
}
