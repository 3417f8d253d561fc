//! Drives the built libspirula.so as an application does.
