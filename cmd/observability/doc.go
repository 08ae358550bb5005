// Package observability keeps the pages and files about metrics true: deploy/METRICS.md, which is made from what processes
// register, and the alert rules and the dashboard of the chart with deploy/ALERTS.md. Only tests use it.
package observability
