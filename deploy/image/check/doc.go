// Package check tells whether an image has what the product calls, runs, and is as large as the README says.
package check
