// Package oci makes the image of two layers, the Debian packages and Holdfast itself, so that an upgrade fetches only the
// second, and writes it as an archive for `ctr images import` and as an OCI layout.
package oci
