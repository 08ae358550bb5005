package runbooks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	books, err := Parse("# Page\n\n## One\ntext `x`\n```sh\na \\\n  b\nc\n```\nmore\n```sh\nd\n```\n## Two\nnothing\n")
	require.NoError(t, err)
	require.Equal(t, []Runbook{{Title: "One", Blocks: []Block{{5, "a \\\n  b\nc\n"}, {11, "d\n"}}}, {Title: "Two"}}, books)
}

func TestParseRefusesWhatNoTestWouldRun(t *testing.T) {
	for name, text := range map[string]string{
		"another language":    "## One\n```text\nholdfast status\n```\n",
		"no language":         "## One\n```\nholdfast status\n```\n",
		"before any section":  "```sh\nholdfast status\n```\n",
		"indented":            "## One\n\n    holdfast status\n",
		"inside of a list":    "## One\n- x\n  ```sh\n  holdfast status\n  ```\n",
		"a block without end": "## One\n```sh\nholdfast status\n",
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				_, err := Parse(text)
				require.Error(t, err)
			}
		})
	}
}
