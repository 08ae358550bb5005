package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestFlagSources(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		env   map[string]string
		file  string
		port  int
		roots []string
	}{
		"the default":                        {port: 1, roots: []string{"/"}},
		"the file":                           {file: "port: 2\nallow-root: [/a, /b]\n", port: 2, roots: []string{"/a", "/b"}},
		"one value for a list in the file":   {file: "allow-root: /a\n", port: 1, roots: []string{"/a"}},
		"the environment wins over the file": {file: "port: 2\n", env: map[string]string{"HOLDFAST_PORT": "3"}, port: 3, roots: []string{"/"}},
		"the environment has lists":          {env: map[string]string{"HOLDFAST_ALLOW_ROOT": "/a,/b"}, port: 1, roots: []string{"/a", "/b"}},
		"the command line wins over all": {args: []string{"--port=4", "--allow-root=/c"}, file: "port: 2\nallow-root: /a\n",
			env: map[string]string{"HOLDFAST_PORT": "3", "HOLDFAST_ALLOW_ROOT": "/b"}, port: 4, roots: []string{"/c"}},
		"an empty file": {file: "# nothing\n", port: 1, roots: []string{"/"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				flags, port, roots := newFlags()
				require.NoError(t, flags.Parse(withFile(t, tc.args, tc.file)))
				require.NoError(t, Fill(flags, lookup(tc.env)))
				require.Equal(t, tc.port, *port)
				require.Equal(t, tc.roots, *roots)
			}
		})
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		file string
		want string
	}{
		"an unknown key":           {file: "port: 2\npool-dri: /x\n", want: `line 2: unknown key "pool-dri"`},
		"a key twice":              {file: "port: 2\nport: 3\n", want: `key "port" is there twice`},
		"a list for one value":     {file: "port: [1, 2]\n", want: `key "port" takes one value`},
		"a value of its own":       {file: "port: {a: 1}\n", want: `key "port" takes a value`},
		"a nested list":            {file: "allow-root: [[a]]\n", want: "plain values only"},
		"a value that is none":     {file: "port: many\n", want: `"many" does not fit --port`},
		"the environment too":      {env: map[string]string{"HOLDFAST_PORT": "many"}, want: "HOLDFAST_PORT"},
		"a list at the top":        {file: "- port\n", want: "keys with values"},
		"what is no YAML":          {file: "a: [", want: "not YAML"},
		"a file within a file":     {file: "config: /x\n", want: `unknown key "config"`},
		"a file that is not there": {env: map[string]string{"HOLDFAST_CONFIG": "/nowhere.yaml"}, want: "name an existing file with --config"},
	} {
		t.Run(name, func(t *testing.T) {
			flags, _, _ := newFlags()
			require.NoError(t, flags.Parse(withFile(t, nil, tc.file)))
			err := Fill(flags, lookup(tc.env))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func newFlags() (*pflag.FlagSet, *int, *[]string) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlag(flags)
	return flags, flags.Int("port", 1, ""), flags.StringArray("allow-root", []string{"/"}, "")
}

func withFile(t *testing.T, args []string, content string) []string {
	if content == "" {
		return args
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return append([]string{"--config", path}, args...)
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(key string) (string, bool) { v, ok := env[key]; return v, ok }
}
