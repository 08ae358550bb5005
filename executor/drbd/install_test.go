package drbd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program makes a program that says its version.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdfast")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return path
}

func installation(t *testing.T, version string) Installation {
	t.Helper()
	return Installation{Root: t.TempDir(), Handler: "/opt/holdfast/bin/holdfast", Dir: "/etc/drbd.d", MainFile: "/etc/drbd.conf",
		Program: program(t, `test "$1" = version && echo "holdfast `+version+`, and more"`), Version: "holdfast " + version}
}

func TestS13_TheHandlerIsInstalledOnceForEachVersion(t *testing.T) {
	in := installation(t, "1")
	done, err := in.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"installed the handler /opt/holdfast/bin/holdfast", "made /etc/drbd.conf"}, done)
	path := filepath.Join(in.Root, in.Handler)
	first, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), first.Mode())
	main, err := os.ReadFile(filepath.Join(in.Root, in.MainFile))
	require.NoError(t, err)
	require.Contains(t, string(main), `include "/etc/drbd.d/*.res";`)
	for range 2 {
		done, err := in.Run(t.Context())
		require.NoError(t, err)
		require.Empty(t, done)
		again, err := os.Stat(path)
		require.NoError(t, err)
		require.True(t, os.SameFile(first, again), "what is there is left alone")
	}
	next := installation(t, "2")
	next.Root = in.Root
	require.NoError(t, os.WriteFile(path+newSuffix, []byte("a part"), 0o600)) // of an installation that was killed
	done, err = next.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"installed the handler /opt/holdfast/bin/holdfast"}, done)
	require.NoFileExists(t, path+newSuffix)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "holdfast 2")
	require.NoError(t, os.Chmod(path, 0o777))
	done, err = next.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, done, 1, "one that others may replace is replaced")
}

// What cannot be run there never takes the place of one that can.
func TestS13_AHandlerThatDoesNotRunIsNotInstalled(t *testing.T) {
	for name, tc := range map[string]struct{ text, problem string }{
		"it fails":             {"exit 3", "ended with code 3"},
		"it is another build":  {"echo holdfast 10", `it is "holdfast 10", and "holdfast 2" was installed`},
		"it is another system": {"\x7fELF", "run the handler"},
	} {
		t.Run(name, func(t *testing.T) {
			in := installation(t, "1")
			_, err := in.Run(t.Context())
			require.NoError(t, err)
			broken := in
			broken.Program, broken.Version = program(t, tc.text), "holdfast 2"
			for range 2 {
				_, err := broken.Run(t.Context())
				require.ErrorContains(t, err, tc.problem)
			}
			entries, err := os.ReadDir(filepath.Join(in.Root, "opt/holdfast/bin"))
			require.NoError(t, err)
			require.Len(t, entries, 1)
			done, err := in.Run(t.Context())
			require.NoError(t, err)
			require.Empty(t, done, "the one that ran is still there")
		})
	}
}

// A link that leads out of the mount leads elsewhere on the host; and what the host configured stays.
func TestTheHostsOwnFilesAreLeftAlone(t *testing.T) {
	in := installation(t, "1")
	elsewhere := t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(in.Root, "opt")))
	for range 2 {
		_, err := in.Run(t.Context())
		require.ErrorContains(t, err, "choose one that no absolute link leads to")
	}
	entries, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, entries)

	require.NoError(t, os.Remove(filepath.Join(in.Root, "opt")))
	require.NoError(t, os.MkdirAll(filepath.Join(in.Root, "var/opt"), 0o755))
	require.NoError(t, os.Symlink("var/opt", filepath.Join(in.Root, "opt")))
	require.NoError(t, os.MkdirAll(filepath.Join(in.Root, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(in.Root, "etc/drbd.conf"), []byte("include \"drbd.d/*.res\";\n"), 0o600))
	done, err := in.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"installed the handler /opt/holdfast/bin/holdfast"}, done)
	require.FileExists(t, filepath.Join(in.Root, "var/opt/holdfast/bin/holdfast"))
	text, err := os.ReadFile(filepath.Join(in.Root, "etc/drbd.conf"))
	require.NoError(t, err)
	require.Equal(t, "include \"drbd.d/*.res\";\n", string(text))
}
