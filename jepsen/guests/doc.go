// Package guests runs tests of other packages as root of a kernel of their own, under
// User Mode Linux: what this host's root may not do, or its kernel cannot.
package guests
