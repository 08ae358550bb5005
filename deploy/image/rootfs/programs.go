package rootfs

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strings"
)

var (
	libraryDirs = []string{"usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"}
	programDirs = []string{"usr/sbin", "usr/bin"}
)

// Missing lists, for every program and library of the tree, the libraries that it is linked to and that are not there, and
// for every script the interpreter: packages were left out, and nothing that stays may need them.
func (t *Tree) Missing() []string {
	var missing []string
	for _, name := range t.Names() {
		e := t.entries[name]
		for _, library := range libraries(e.data) {
			if !t.hasIn(libraryDirs, library) {
				missing = append(missing, fmt.Sprintf("/%s needs %s", name, library))
			}
		}
		if interpreter := interpreter(e); interpreter != "" && !t.Has(clean(interpreter)) {
			missing = append(missing, fmt.Sprintf("/%s needs %s", name, interpreter))
		}
	}
	return missing
}

// Program tells whether the tree has a command, for which the product looks in these folders alone.
func (t *Tree) Program(name string) bool { return t.hasIn(programDirs, name) }

func (t *Tree) hasIn(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return t.Has(path.Join(dir, name)) })
}

func libraries(data []byte) []string {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil // not a program
	}
	defer func() { _ = file.Close() }()
	names, _ := file.ImportedLibraries() // none where it is static
	return names
}

// interpreter is what the first line of a script names, if anybody may run it.
func interpreter(e entry) string {
	first, isScript := strings.CutPrefix(string(e.data[:min(len(e.data), 200)]), "#!")
	if !isScript || e.header.Mode&0o111 == 0 {
		return ""
	}
	first, _, _ = strings.Cut(first, "\n")
	words := strings.Fields(first)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
