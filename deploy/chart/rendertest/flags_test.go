package rendertest

import (
	"bufio"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandsPage lists the flags of holdfast's commands; a test of that program keeps it as --help is.
const commandsPage = "../../COMMANDS.md"

// pending are flags that the chart passes and that page does not have.
var pending = map[string][]string{}

// sidecarFlags are read from the programs' sources, in the versions of values.yaml.
var sidecarFlags = map[string]string{
	"provisioner":       "testdata/flags/csi-provisioner.txt",
	"attacher":          "testdata/flags/csi-attacher.txt",
	"resizer":           "testdata/flags/csi-resizer.txt",
	"snapshotter":       "testdata/flags/csi-snapshotter.txt",
	"snapshot-metadata": "testdata/flags/csi-snapshot-metadata.txt",
	"csi-addons":        "testdata/flags/csi-addons.txt",
}

func TestEveryFlagIsOneOfItsProgram(t *testing.T) {
	commands := commandFlags(t)
	for path := range sets {
		for _, spec := range podSpecs(objectsOfSet(t, path)) {
			for _, container := range containers(spec) {
				known, program := knownFlags(t, commands, container.Name, container.Args)
				seen := map[string]bool{}
				for _, flag := range flags(container.Args) {
					require.Contains(t, known, flag, "%s: %s has no such flag", path, program)
					require.False(t, seen[flag] && !repeatable[flag], "%s: %s: --%s twice", path, program, flag)
					seen[flag] = true
				}
			}
		}
	}
}

// repeatable are flags that may be given more than once.
var repeatable = map[string]bool{"pool": true, "label": true, "disable-capability": true}

// A flag that the page has by now is pending no longer.
func TestNothingIsPendingThatIsThere(t *testing.T) {
	for command, names := range pending {
		for _, name := range names {
			require.NotContains(t, commandFlags(t)[command], name, "holdfast %s has --%s: take it off the list", command, name)
		}
	}
}

// knownFlags are those of the program that a container runs, and its name. The one that sets folders up runs Debian's; the page does not
// have the verb that the handler's runs, as the system calls it.
func knownFlags(t *testing.T, commands map[string]map[string]bool, container string, args []string) (map[string]bool, string) {
	t.Helper()
	if container == setup {
		return nil, "Debian's"
	}
	if container == handler {
		return map[string]bool{"root": true, "handler": true}, "holdfast install-handler"
	}
	if file, ok := sidecarFlags[container]; ok {
		return lines(t, file), container
	}
	require.NotEmpty(t, args, container)
	known := map[string]bool{}
	for name := range commands[args[0]] {
		known[name] = true
	}
	for _, name := range pending[args[0]] {
		known[name] = true
	}
	require.NotEmpty(t, known, "holdfast %s", args[0])
	return known, "holdfast " + args[0]
}

// flags are the names of the flags among arguments.
func flags(args []string) []string {
	var out []string
	for _, arg := range args {
		if name, is := strings.CutPrefix(arg, "--"); is {
			name, _, _ = strings.Cut(name, "=")
			out = append(out, name)
		}
	}
	return out
}

var (
	commandLine = regexp.MustCompile(`^## holdfast ([a-z-]+)$`)
	flagLine    = regexp.MustCompile("^\\| `--([a-z0-9-]+)`")
)

// commandFlags are the flags of each command by its page.
func commandFlags(t *testing.T) map[string]map[string]bool {
	t.Helper()
	page, err := os.Open(commandsPage)
	require.NoError(t, err)
	defer page.Close()
	out, command := map[string]map[string]bool{}, ""
	shared := map[string]bool{} // of the commands that ask a cluster: they are listed first
	for scanner := bufio.NewScanner(page); scanner.Scan(); {
		if strings.HasPrefix(scanner.Text(), "## ") {
			command = ""
		}
		if match := commandLine.FindStringSubmatch(scanner.Text()); match != nil {
			command = match[1]
			out[command] = map[string]bool{}
		}
		match := flagLine.FindStringSubmatch(scanner.Text())
		switch {
		case command != "" && strings.HasSuffix(scanner.Text(), " It asks a cluster."):
			maps.Copy(out[command], shared)
		case match != nil && command != "":
			out[command][match[1]] = true
		case match != nil:
			shared[match[1]] = true
		}
	}
	require.NotEmpty(t, out["node"])
	return out
}

func lines(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	out := map[string]bool{}
	for _, line := range strings.Fields(string(text)) {
		out[line] = true
	}
	return out
}
