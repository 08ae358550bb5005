// Package runbooks reads the commands out of deploy/RUNBOOKS.md. Its tests bring a cluster of processes into the trouble that a section
// is about, run the section's commands with a shell, as they are on the page and in their order where one depends on another, and look whether the trouble is over. What is in
// capitals with a $ is a variable of that shell. A section without a test, and a command that its test did not run, fail.
package runbooks
