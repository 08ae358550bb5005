package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/config"
)

// flagValues are a value of each type that is no flag's default. A type that is missing here
// needs one, and a text that it refuses.
var flagValues = map[string]string{
	"bool": "true", "bytes": "7", "duration": "7m0s", "float64": "7", "int": "7", "int64": "7", "uint32": "7", "uint64": "7",
	"string": "given", "stringArray": "given", "stringSlice": "given", "stringToString": "given=more",
}

// takesAnyText tells the types that refuse no text when they are read; their commands check it.
func takesAnyText(kind string) bool { return strings.HasPrefix(kind, "string") }

// flagSources are the places that a flag is read from.
var flagSources = map[string]func(t *testing.T, flags *pflag.FlagSet, name, value string) error{
	"command line": func(_ *testing.T, flags *pflag.FlagSet, name, value string) error {
		return flags.Parse([]string{"--" + name + "=" + value})
	},
	"environment": func(t *testing.T, flags *pflag.FlagSet, name, value string) error {
		if name == config.FileFlag {
			t.Skip("it names a file that is read at once; package config tests that")
		}
		if config.IsOnlyOnCommandLine(flags.Lookup(name)) {
			require.NoError(t, config.Fill(flags, func(variable string) (string, bool) { return value, variable == config.EnvName(name) }))
			require.False(t, flags.Changed(name))
			t.Skip("it is of one call: the environment does not set it")
		}
		return config.Fill(flags, func(variable string) (string, bool) { return value, variable == config.EnvName(name) })
	},
	"file": func(t *testing.T, flags *pflag.FlagSet, name, value string) error {
		if flags.Lookup(config.FileFlag) == nil || name == config.FileFlag {
			t.Skip("it is not for a file")
		}
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte(name+": "+value+"\n"), 0o600))
		require.NoError(t, flags.Set(config.FileFlag, path))
		return config.Fill(flags, func(string) (string, bool) { return "", false })
	},
}

// TestEveryFlagIsReadFromEverySource also sees that a text of another type is refused there, in
// words that name the flag, its variable or its key.
func TestEveryFlagIsReadFromEverySource(t *testing.T) {
	for _, path := range commandPaths(Root()) {
		command(t, path).LocalFlags().VisitAll(func(f *pflag.Flag) {
			for source, read := range flagSources {
				t.Run(path+"/"+f.Name+"/"+source, func(t *testing.T) {
					flags := command(t, path).Flags()
					require.NoError(t, read(t, flags, f.Name, otherValue(t, f)))
					require.Equal(t, otherValue(t, f), strings.Trim(flags.Lookup(f.Name).Value.String(), "[]"))
					require.True(t, flags.Changed(f.Name))
					if takesAnyText(f.Value.Type()) {
						return
					}
					err := read(t, command(t, path).Flags(), f.Name, "nonsense")
					require.ErrorContains(t, err, "nonsense")
					require.Regexp(t, f.Name+"|"+config.EnvName(f.Name), err)
				})
			}
		})
	}
}

// otherValue is a value that is not the flag's default.
func otherValue(t *testing.T, f *pflag.Flag) string {
	t.Helper()
	value, known := flagValues[f.Value.Type()]
	require.True(t, known, "flagValues has no value of type %s", f.Value.Type())
	if value == f.DefValue {
		return map[string]string{"true": "false"}[value]
	}
	return value
}

// commandPaths are the names of a command and of all below it, without the program's name.
func commandPaths(cmd *cobra.Command) []string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	paths := []string{path}
	for _, sub := range cmd.Commands() {
		paths = append(paths, commandPaths(sub)...)
	}
	return paths
}

// command is a command with flags that nothing has set yet, its parents' among them.
func command(t *testing.T, path string) *cobra.Command {
	t.Helper()
	cmd, _, err := Root().Find(strings.Fields(path))
	require.NoError(t, err)
	cmd.LocalFlags() // merges the parents' flags
	return cmd
}
