package runbooks

import "testing"

func skippedEntry(t *testing.T, book Runbook)   { t.Fatal("TODO") }
func upgradeAndBack(t *testing.T, book Runbook) { t.Fatal("TODO") }
