// Package sbom lists in SPDX 2.3 what is in the image: the Debian packages and the Go modules of the program.
package sbom
