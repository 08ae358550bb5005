package verbs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var (
	builder harness.Builder
	long    = flag.Bool("long", os.Getenv("HOLDFAST_LONG") != "", "run the long form of the tests")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// operator is who runs commands against a cluster.
type operator struct {
	*harness.Cluster
	t      *testing.T
	binary string
}

func start(t *testing.T, opts harness.Options) *operator {
	t.Helper()
	binary := testBinary(t)
	opts.Binary = binary
	c, err := harness.Start(t.Context(), opts)
	require.NoError(t, err)
	o := &operator{Cluster: c, t: t, binary: binary}
	t.Cleanup(o.clean)
	return o
}

func (o *operator) clean() {
	if o.t.Failed() {
		o.t.Logf("the end of the logs:\n%s", o.Logs(5))
	}
	require.NoError(o.t, o.Clean(context.Background()))
}

func testBinary(t *testing.T) string {
	t.Helper()
	if why := harness.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	binary, err := builder.Path(t.Context())
	require.NoError(t, err)
	return binary
}

// must runs a command that succeeds.
func (o *operator) must(args ...string) string {
	o.t.Helper()
	res := o.Run(o.t.Context(), args...)
	require.Zero(o.t, res.Code, "%v: %s\n%s", args, res.Stderr, res.Stdout)
	return res.Stdout
}

// ask runs a command for the cluster that succeeds.
func (o *operator) ask(args ...string) string {
	o.t.Helper()
	return o.must(append(args, "--dir", o.Dir)...)
}

// certificate is the path of a role's certificate, without its ending.
func (o *operator) certificate(role, name string) string {
	base := role + "-" + name
	return filepath.Join(o.Dir, "pki", base, base)
}

// line is the line of a listing that begins with a word.
func line(text, word string) string {
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, word+" ") {
			return l
		}
	}
	return ""
}
