// Package deb makes the Debian package: the program, its units, and the user as which controllers run.
package deb
