// Package rendertest renders the chart of Holdfast as the published versions of Helm do, and holds what it renders
// against the types of Kubernetes. Its tests also write what is generated from the chart; see TestMain.
package rendertest
