package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// environment is the variable that switches on a mutant of a program, by its number.
const environment = "HOLDFAST_MUTANT"

// insertion is one side of what is put around a stretch.
type insertion struct {
	at, length, number int
	text               string
	after              bool
}

// rewrite writes the files with their mutants into a directory and answers the overlay that go build reads.
func rewrite(s *subject, mutants []mutant, dir string) (overlay string, err error) {
	replace := map[string]string{}
	byFile := map[string][]insertion{}
	for i := range mutants {
		m := &mutants[i]
		on := fmt.Sprintf("mutantOn(%d)", i+1)
		byFile[m.file] = append(byFile[m.file],
			insertion{m.from, m.to - m.from, i, strings.ReplaceAll(m.before, "%s", on), false},
			insertion{m.to, m.to - m.from, i, strings.ReplaceAll(m.after, "%s", on), true})
	}
	for file, insertions := range byFile {
		source, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if err := overlaid(replace, dir, file, insert(source, insertions)); err != nil {
			return "", err
		}
	}
	helper := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar mutantNumber, _ = func() (n int, err error) {\n\tfor _, c := range os.Getenv(%q) {\n\t\tn = 10*n + int(c-'0')\n\t}\n\treturn n, nil\n}()\n\nfunc mutantOn(number int) bool { return number == mutantNumber }\n",
		filepath.Base(s.dir), environment)
	if err := overlaid(replace, dir, filepath.Join(s.dir, "zz_mutants.go"), []byte(helper)); err != nil {
		return "", err
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, strings.ReplaceAll(s.dir, "/", "-")+".json")
	return overlay, os.WriteFile(overlay, content, 0o644)
}

// overlaid writes the new content of a file and notes where it is.
func overlaid(replace map[string]string, dir, file string, content []byte) error {
	original, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(dir, strings.ReplaceAll(file, "/", "-")))
	if err != nil {
		return err
	}
	replace[original] = path
	return os.WriteFile(path, content, 0o644)
}

// insert puts all insertions into the source. Of those at one place the end of an inner stretch comes first, then the end of an
// outer one, then the beginnings, the outer first.
func insert(source []byte, insertions []insertion) []byte {
	slices.SortFunc(insertions, func(a, b insertion) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		if a.after != b.after {
			return map[bool]int{true: -1, false: 1}[a.after]
		}
		order := cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.number, b.number))
		if a.after {
			return order
		}
		return -order
	})
	var out []byte
	last := 0
	for _, in := range insertions {
		out = append(append(out, source[last:in.at]...), in.text...)
		last = in.at
	}
	return append(out, source[last:]...)
}
