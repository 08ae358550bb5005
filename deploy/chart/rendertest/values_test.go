package rendertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const valuesPage = "../VALUES.md"

func TestValuesPageIsCurrent(t *testing.T) {
	values, err := Values()
	require.NoError(t, err)
	var page strings.Builder
	page.WriteString("# Values of the chart\nAll of them, with their defaults; any other key is refused. `make chart` writes this page from values.yaml.\n\n" +
		"| Value | Default | Meaning |\n|---|---|---|\n")
	for _, value := range values {
		fmt.Fprintf(&page, "| `%s` | `%s` | %s |\n", value.Path, cell(value.Default), cell(value.Text))
	}
	isCurrent(t, valuesPage, page.String())
}

// cell is a text as a table's cell can have it.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
