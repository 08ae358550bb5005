package main

import (
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"holdfast": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "occupy": occupy,
		},
	})
}

// exits runs `exits CODE holdfast ...`: the code must be that, and an error must
// be one line on standard error.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s exited %d, not %d", strings.Join(args[1:], " "), got, want)
	}
	if lines := strings.Count(ts.ReadFile("stderr"), "\n"); want != 0 && lines != 1 {
		ts.Fatalf("%d lines on standard error, not one", lines)
	}
}

// occupy listens on a free port for the rest of the script and puts its address
// into the variable named.
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: occupy VARIABLE")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	ts.Setenv(args[0], listener.Addr().String())
}

func TestEveryCommandAndEveryFlagIsExplained(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			require.NotEmpty(t, f.Usage, "%s --%s", cmd.CommandPath(), f.Name)
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(cli.Root())
}

func TestDocumentedCommandsExist(t *testing.T) {
	for _, path := range []string{
		"controller", "node", "dev", "dev start", "dev clean", "ca make", "ca issue", "status", "volumes", "nodes list", "nodes lost",
		"nodes replace", "nodes adopt", "nodes drain", "nodes undrain", "nodes evict", "volumes list", "volumes replicas", "volumes force-primary", "volumes kept list", "volumes kept remove", "operations list", "operations show", "operations cancel", "operations retry",
		"history", "audit", "state", "version",
	} {
		cmd, rest, err := cli.Root().Find(strings.Fields(path))
		require.NoError(t, err, path)
		require.Empty(t, rest, path)
		require.Equal(t, "holdfast "+path, cmd.CommandPath())
	}
}
