package cli

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// completions are what a shell is offered for the last argument.
func completions(t *testing.T, args ...string) []string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Zero(t, Main(append([]string{"__completeNoDesc"}, args...), &stdout, &stderr), stderr.String())
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	require.Equal(t, ":4", lines[len(lines)-1], "no names of files")
	require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "cobra's own line alone: %s", stderr.String())
	return lines[:len(lines)-1]
}

func TestNamesAreCompletedFromTheCluster(t *testing.T) {
	odd := volume(6, 1, "n1")
	odd.Name = "a name $(reboot)"
	f := &fakeLists{volumes: append(someVolumes(), odd)}
	flags := f.serve(t)
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"nodes drain ", []string{"n1", "n10", "n2"}},
		{"nodes drain n1", []string{"n1", "n10"}},
		{"nodes drain n1 ", nil},
		{"volumes replicas pvc-", []string{"pvc-1", "pvc-2", "pvc-3", "pvc-4", "pvc-5"}},
		{"volumes manifest hv-06", []string{"hv-06"}},
		{"volumes manifest a", nil}, // a name that a shell would not take as it is
		{"volumes force-primary pvc-4 n2", []string{"n2"}},
		{"volumes --node n1", []string{"n1", "n10"}},
		{"volumes --pool p", []string{"p1", "p2"}},
		{"volumes at-risk --if-node n2", []string{"n2"}},
		{"members remove ", []string{"c1", "m-1"}},
		{"operations show op-", []string{"op-12"}},
		{"snapshots list s", nil}, // the cluster refuses
		{"nodes --sort-by pool-c", []string{"pool-condition"}},
		{"nodes --sort-by node,-fr", []string{"node,-free"}},
		{"nodes --condition pool-a", []string{"pool-abnormal", "pool-absent"}},
		{"status -o w", []string{"wide"}},
		{"history pvc-5", []string{"pvc-5"}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			words := strings.Split(tc.args, " ")
			for range 2 {
				args := append(append([]string{words[0]}, flags...), words[1:]...)
				require.Equal(t, tc.want, append([]string(nil), completions(t, args...)...))
			}
		})
	}
	for _, req := range f.asked {
		require.True(t, req.GetStale(), "completion needs no quorum")
	}
}

func TestTheClusterMayComeFromTheEnvironment(t *testing.T) {
	flags := (&fakeLists{}).serve(t)
	for i, name := range []string{"ENDPOINTS", "CERT", "KEY", "CA"} {
		t.Setenv("HOLDFAST_"+name, flags[2*i+1])
	}
	require.Equal(t, []string{"n1", "n10", "n2"}, completions(t, "nodes", "drain", ""))
}

// TestCompletionIsSilentAndShortWithoutACluster: a listener that answers nothing is the worst case.
func TestCompletionIsSilentAndShortWithoutACluster(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = deaf.Close() })
	flags := serveAdmin(t, adminpb.UnimplementedAdminServer{})
	flags[1] = deaf.Addr().String() + "," + deaf.Addr().String()
	began := time.Now()
	require.Empty(t, completions(t, append([]string{"nodes"}, append(flags, "drain", "")...)...))
	require.Less(t, time.Since(began), 20*completionTime, "it ends by itself")
	require.Empty(t, completions(t, "nodes", "--dir", t.TempDir(), "drain", ""))
	require.Empty(t, completions(t, "nodes", "drain", ""))
}

// TestNamesAreCompletedWhereThereAreVerbs finds a renamed verb whose arguments nobody completes any more.
func TestNamesAreCompletedWhereThereAreVerbs(t *testing.T) {
	root := Root()
	addCompletion(root)
	for path := range argNames {
		cmd, rest, err := root.Find(strings.Fields(path))
		require.NoError(t, err, path)
		require.Empty(t, rest, path)
		require.NotNil(t, cmd.ValidArgsFunction, path)
	}
}

func TestEveryCommandHasAnExampleThatIsRead(t *testing.T) {
	for _, cmd := range withChildren(Root()) {
		if cmd.Hidden || cmd.Name() == "help" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
			continue // cobra's own say it in words
		}
		require.NotEmpty(t, cmd.Example, "%s has no example", cmd.CommandPath())
		for _, line := range strings.Split(cmd.Example, "\n") {
			requireExample(t, cmd, strings.TrimSpace(line))
		}
	}
	for path := range examples {
		_, rest, err := Root().Find(strings.Fields(path))
		require.NoError(t, err, path)
		require.Empty(t, rest, path)
	}
}

// requireExample wants an example's flags and arguments to be accepted.
func requireExample(t *testing.T, of *cobra.Command, line string) {
	t.Helper()
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 { // between quotes
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	require.Equal(t, "holdfast", words[0])
	cmd, rest, err := Root().Find(words[1:])
	require.NoError(t, err, line)
	require.NoError(t, cmd.ParseFlags(rest), line)
	require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), line)
	require.True(t, strings.HasPrefix(cmd.CommandPath()+" ", of.CommandPath()), "%s is an example of %s", line, of.CommandPath())
}
