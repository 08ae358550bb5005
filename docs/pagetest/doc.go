// Package pagetest reads the commands and the manifests out of docs/*.md and README.md, and the commands for Kubernetes out of
// deploy/RUNBOOKS.md, and holds each against the program that would run it: the commands of holdfast and kubectl, the chart as Helm 3 and
// 4 render it, the types of Kubernetes, the Makefile. What it cannot classify fails. It is a module of its own, because it needs the
// product's commands and Helm and kubectl as libraries.
//
// What only asks is asked of a cluster of processes, where that can be (root), and manifests of an API server, where
// HOLDFAST_KUBERNETES_BIN names its programs (kube/apitest). Nothing is run against a whole Kubernetes here: jepsen/kubernetes does that.
package pagetest
