package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestTheOldCAIsDroppedWhenNobodyUsesIt(t *testing.T) {
	of := func(issuer string) *adminpb.Certificate {
		return &adminpb.Certificate{Role: "node", Name: "n1", Serial: "aa", Issuer: issuer, SeenBy: []string{"c1"}}
	}
	for name, tc := range map[string]struct {
		seen *adminpb.CertificatesResponse
		code int
		want string
	}{
		"all are the new one's": {&adminpb.CertificatesResponse{Certificates: []*adminpb.Certificate{of("new"), of("new")}}, exit.OK, ""},
		"one is not":            {&adminpb.CertificatesResponse{Certificates: []*adminpb.Certificate{of("new"), of("old")}}, exit.Refused, "node/n1 is another CA's, and in use at c1"},
		"one was not asked":     {&adminpb.CertificatesResponse{Unknown: []string{"c2: gone"}}, exit.Unavailable, "c2: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkIssuer(tc.seen, "new")
			require.Equal(t, tc.code, exit.Code(err))
			require.Contains(t, exit.Line(err), tc.want)
		})
	}
}

// What drops the old CA is not done on the files alone: nobody knows then who is cut off.
func TestTheOldCAIsNotDroppedUnasked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	call := func(args ...string) (int, string) {
		var out bytes.Buffer
		return Main(append([]string{"ca"}, args...), &out, &out), out.String()
	}
	for _, args := range [][]string{{"make", "--cluster", "one"}, {"rotate", "--yes"}, {"rotate", "--switch", "--yes"}} {
		code, out := call(append(args, "--ca-dir", dir)...)
		require.Equal(t, exit.OK, code, out)
	}
	both, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	finish := func(args ...string) (int, string) {
		return call(append([]string{"rotate", "--ca-dir", dir, "--finish"}, args...)...)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
	}{
		"shown":                          {nil, exit.OK},
		"no cluster is named":            {[]string{"--yes"}, exit.Usage},
		"Kubernetes that is not there":   {[]string{"--yes", "--kubeconfig", filepath.Join(dir, "none")}, exit.Usage},
		"a cluster that does not answer": {[]string{"--yes", "--dir", t.TempDir()}, exit.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				code, out := finish(tc.args...)
				require.Equal(t, tc.code, code, out)
				now, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
				require.NoError(t, err)
				require.Equal(t, both, now)
			}
		})
	}
	for range 2 {
		code, out := finish("--yes", "--even-if-in-use")
		require.Equal(t, exit.OK, code, out)
	}
	now, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	require.Less(t, len(now), len(both))
	code, out := finish("--yes")
	require.Equal(t, exit.OK, code, out)
}
