package main

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const decides = `package main

import "os"

func main() {
	a, b := len(os.Args), 1
	code := 3
	if a == b && !(a < 1 || b > 2) {
		code = 4
	}
	os.Exit(code)
}
`

// programOf writes the program with all its mutants and builds it.
func programOf(t *testing.T) (mutants []mutant, program string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "main")
	require.NoError(t, os.Mkdir(dir, 0o700))
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(decides), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module main\n"), 0o600))
	mutants, err := find(file)
	require.NoError(t, err)
	s := &subject{dir: dir}
	overlay, err := rewrite(s, mutants, t.TempDir())
	require.NoError(t, err)
	program = filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, ".")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return mutants, program
}

func TestEachMutantChangesOneThing(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	mutants, program := programOf(t)
	exit := func(number int) int {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{environment + "=" + strconv.Itoa(number)}
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode()
	}
	require.Equal(t, 4, exit(0), "without a mutant nothing differs")
	require.Equal(t, map[string]int{
		"negate `a == b`":                  3,
		"or `a == b && !(a < 1 || b > 2)`": 4,
		"negate `!(a < 1 || b > 2)`":       3,
		"and `a < 1 || b > 2`":             4,
		"bound `a < 1`":                    3,
		"bound `b > 2`":                    4,
		"leave out `code = 4`":             3,
		"leave out `os.Exit(code)`":        0,
	}, shortened(mutants, exit))
}

// shortened are the exit codes by what a mutant's name says behind the function.
func shortened(mutants []mutant, exit func(int) int) map[string]int {
	codes := map[string]int{}
	for i, m := range mutants {
		_, kind, _ := strings.Cut(m.name, "main: ")
		codes[kind] = exit(i + 1)
	}
	return codes
}

// TestTheProductsMutantsAreGo: whatever is chosen, each file is still Go.
func TestTheProductsMutantsAreGo(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for i := range subjects {
		mutants, err := subjects[i].choose(7, 400)
		require.NoError(t, err)
		require.NotEmpty(t, mutants)
		dir := t.TempDir()
		_, err = rewrite(&subjects[i], mutants, dir)
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			_, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
		}
	}
}

func TestPlantedBugsHaveNoMutants(t *testing.T) {
	file := filepath.Join(t.TempDir(), "planted.go")
	require.NoError(t, os.WriteFile(file, []byte(`package planted

func f(a, b bool) bool {
	if a && plantedbug.Is(plantedbug.X) {
		b = !a
	}
	return a && !plantedbug.Is(plantedbug.X) || !b
}
`), 0o600))
	mutants, err := find(file)
	require.NoError(t, err)
	var names []string
	for _, m := range mutants {
		_, kind, _ := strings.Cut(m.name, " f: ")
		names = append(names, kind)
	}
	require.Equal(t, []string{"and `a && !plantedbug.Is(plantedbug.X) || !b`", "negate `!b`"}, names)
}

func TestTheSameSeedChoosesTheSameMutants(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	first, err := subjects[0].choose(1, 20)
	require.NoError(t, err)
	again, err := subjects[0].choose(1, 20)
	require.NoError(t, err)
	require.Equal(t, first, again)
	other, err := subjects[0].choose(2, 20)
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}

func TestThePageListsSurvivorsWithTheirReasons(t *testing.T) {
	chosen := []mutant{{name: "fsm/a.go f: negate `x`", file: "fsm/a.go"}, {name: "fsm/a.go g: or `a || b`", file: "fsm/a.go"}, {name: "fsm/a.go h: and `y`", file: "fsm/a.go"}}
	results := map[string]result{chosen[0].name: {Name: chosen[0].name, Killed: "fsm"}, chosen[1].name: {Name: chosen[1].name}, chosen[2].name: {Name: chosen[2].name}}
	text := page(chosen, results, map[string]string{chosen[1].name: "both are one"}, 1)
	require.Contains(t, text, "| fsm | 3 | 1 | 0 | 2 | 1 |")
	require.Contains(t, text, "| fsm/a.go g: or `a \\|\\| b` | both are one |")
	require.Contains(t, text, "| fsm/a.go h: and `y` | **none: a test is missing** |")
}
