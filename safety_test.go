package holdfast_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryRuleIsDefinedOnceAndProven(t *testing.T) {
	wrong, err := brokenRules(".")
	require.NoError(t, err)
	require.Empty(t, wrong)
}

const (
	plantedRules = "# Rules\n\n### S1 One\nText.\n\n*Prevents:* harm.\n\n*Tests:* `a.TestS1_One`\n"
	plantedTest  = "package a\n\nimport \"testing\"\n\nfunc TestS1_One(t *testing.T) {}\n"
)

func TestRulebookFindsPlantedErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		file, content string
		want          string
	}{
		"nothing": {},
		"a doc comment carries a rule": {file: "a/a_test.go",
			content: "package a\n\n// TestOne shows S1.\nfunc TestS1_One(t *testing.T) {}\n"},
		"what only looks like a citation": {file: "a/b.go",
			content: "package a\n\nvar S9, R2 int // CSI-X-R1x, SS9, S9x\n\nvar s = \"C1 is a member\"\n"},
		"a cited number that is not defined": {file: "a/b.go", want: "a/b.go cites S9",
			content: "package a\n\n// b holds a rule (S9).\nvar b int\n"},
		"in a text": {file: "a/b.go", want: "a/b.go cites S9",
			content: "package a\n\nvar b = \"refused (S9)\"\n"},
		"in the name of a test": {file: "a/b_test.go", want: "a/b_test.go cites S9",
			content: "package a\n\nfunc TestS1_S9_Two(t *testing.T) {}\n"},
		"in a document": {file: "a/DESIGN.md", want: "a/DESIGN.md cites S9",
			content: "## S1 and S9\n"},
		"in a protocol": {file: "a/a.proto", want: "a/a.proto cites S9",
			content: "// one (S9)\n"},
		"a number of an old kind": {file: "a/b.go", want: "a/b.go cites I17, which is no rule of SAFETY.md",
			content: "package a\n\n// b is locked (I17).\nvar b int\n"},
		"in a document too": {file: "a/DESIGN.md", want: "a/DESIGN.md cites R2, which is no rule of SAFETY.md",
			content: "`R9` is a name, R2 is none.\n"},
		"and in the name of a test": {file: "a/b_test.go", want: "a/b_test.go cites C1, which is no rule of SAFETY.md",
			content: "package a\n\nfunc TestC1_Two(t *testing.T) {}\n"},
		"and of a case": {file: "a/b_test.go", want: "a/b_test.go cites I5, which is no rule of SAFETY.md",
			content: "package a\n\nvar cases = []string{\"I5: two\"}\n"},
		"one number with two meanings": {file: rulebookName, want: "S1 is defined twice",
			content: plantedRules + "\n### S1 Another\nText.\n\n*Prevents:* harm.\n\n*Tests:* `a.TestS1_One`\n"},
		"a second meaning elsewhere": {file: "a/doc.go", want: "a/doc.go defines S1, which SAFETY.md does",
			content: "// Package a has a rule of its own:\n//\n//\tS1  Two names.\npackage a\n"},
		"a rule without a failure that it prevents": {file: rulebookName, want: "S1 does not say what it prevents",
			content: strings.Replace(plantedRules, "*Prevents:* harm.", "", 1)},
		"a rule without a test": {file: rulebookName, want: "S1 names no test",
			content: strings.Replace(plantedRules, "`a.TestS1_One`", "none", 1)},
		"a test that does not exist": {file: rulebookName, want: "S1 names a.TestS1_Two, which does not exist",
			content: strings.Replace(plantedRules, "S1_One", "S1_Two", 1)},
		"a test of another package": {file: rulebookName, want: "S1 names b.TestS1_One, which does not exist",
			content: strings.Replace(plantedRules, "a.Test", "b.Test", 1)},
		"a test without the number": {file: "a/a_test.go", want: "S1 names a.TestS1_One, which does not exist",
			content: "package a\n\n// One shows it.\nfunc TestOne(t *testing.T) {}\n"},
		"a test with another number": {file: rulebookName, want: "S2 names a.TestS1_One, which does not carry it",
			content: plantedRules + "\n### S2 Two\nText.\n\n*Prevents:* harm.\n\n*Tests:* `a.TestS1_One`\n"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			plant(t, root, rulebookName, plantedRules)
			plant(t, root, "a/a_test.go", plantedTest)
			if tc.file != "" {
				plant(t, root, tc.file, tc.content)
			}
			wrong, err := brokenRules(root)
			require.NoError(t, err)
			if tc.want == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], tc.want)
		})
	}
}

func plant(t *testing.T, root, file, content string) {
	t.Helper()
	at := filepath.Join(root, file)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
	require.NoError(t, os.WriteFile(at, []byte(content), 0o600))
}
