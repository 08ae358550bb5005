package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// fakeDoctorAPI answers what was found, and nothing else that goes into a bundle.
type fakeDoctorAPI struct {
	adminpb.UnimplementedAdminServer
	severities []string
}

func (d *fakeDoctorAPI) Doctor(context.Context, *adminpb.DoctorRequest) (*adminpb.DoctorResponse, error) {
	resp := &adminpb.DoctorResponse{Index: 7}
	for _, severity := range d.severities {
		resp.Findings = append(resp.Findings, &adminpb.Diagnosis{Severity: severity, Subject: "host n1", Found: "it is " + severity, Remedy: "mend what is " + severity})
	}
	return resp, nil
}

func runCommand(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Main(args, &out, &err)
	return code, out.String(), err.String()
}

func TestTheDoctorsExitCodeIsThatOfTheWorst(t *testing.T) {
	for name, tc := range map[string]struct {
		severities []string
		code       int
	}{
		"all is well":            {[]string{"ok"}, exit.OK},
		"nothing was found":      {nil, exit.OK},
		"a warning":              {[]string{"warn", "ok"}, exit.OK},
		"something is not known": {[]string{"unknown", "warn", "ok"}, exit.Unavailable},
		"an error":               {[]string{"error", "unknown", "ok"}, exit.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			flags := serveAdmin(t, &fakeDoctorAPI{severities: tc.severities})
			for range 2 {
				for _, format := range []string{"table", "json", "yaml"} {
					code, stdout, _ := runCommand(append([]string{"doctor", "-o", format}, flags...)...)
					require.Equal(t, tc.code, code)
					require.NotContains(t, stdout, "it is ok")
					code, stdout, _ = runCommand(append([]string{"doctor", "--all", "-o", format}, flags...)...)
					require.Equal(t, tc.code, code)
					for _, severity := range tc.severities {
						require.Contains(t, stdout, "it is "+severity)
					}
				}
			}
		})
	}
}

func TestABundleIsReadWithoutACluster(t *testing.T) {
	flags := serveAdmin(t, &fakeDoctorAPI{severities: []string{"error", "ok"}})
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	code, stdout, _ := runCommand(append([]string{"bundle", path}, flags...)...)
	require.Equal(t, exit.Refused, code, "parts are missing")
	require.Contains(t, stdout, "1 file")
	require.Contains(t, stdout, "missing: audit.json: ")
	for range 2 {
		for _, args := range [][]string{{"doctor"}, {"doctor", "--all"}, {"doctor", "-o", "json"}, {"doctor", "-o", "yaml", "--all"}} {
			_, want, _ := runCommand(append(args, flags...)...)
			code, got, _ := runCommand(append(args, "--bundle", path)...)
			require.Equal(t, exit.Refused, code)
			require.Equal(t, want, got)
		}
		code, _, stderr := runCommand("history", "--bundle", path)
		require.Equal(t, exit.Refused, code)
		require.Contains(t, stderr, "the bundle has no state.dump: ")
		code, _, stderr = runCommand("audit", "--bundle", path)
		require.Equal(t, exit.Unavailable, code)
		require.Contains(t, stderr, "the bundle has no audit.json: ")
		code, _, stderr = runCommand(append([]string{"bundle", path}, flags...)...)
		require.Equal(t, exit.Refused, code)
		require.Contains(t, stderr, "is there already")
	}
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	for _, command := range []string{"doctor", "history", "state", "audit"} {
		code, _, stderr := runCommand(command, "--bundle", path)
		require.Equal(t, exit.Refused, code)
		require.Contains(t, stderr, "is refused: ")
	}
}

func TestWrongFlagsOfTheDoctorAndOfBundlesAreUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		stderr string
	}{
		"no cluster":                       {[]string{"doctor"}, "--dir"},
		"a flag of --host alone":           {[]string{"doctor", "--data-dir", "/x"}, "give --host too"},
		"what a node is to listen on":      {[]string{"doctor", "--host", "--listen", ":9800"}, "--replication-address"},
		"a role that is none":              {[]string{"doctor", "--host", "--role", "x"}, "choose node or controller"},
		"a controller with a pool":         {[]string{"doctor", "--host", "--role", "controller", "--pool-dir", "/x"}, "has no pools"},
		"a pool that is none":              {[]string{"doctor", "--host", "--pool", "vg"}, "lvm:VG/POOL"},
		"a pool that looks like an option": {[]string{"doctor", "--host", "--pool", "lvm:-a/x"}, "lvm:VG/POOL"},
		"this host and a bundle":           {[]string{"doctor", "--host", "--bundle", "x.tar.gz"}, "give one of the two"},
		"this host and a cluster":          {[]string{"doctor", "--host", "--dir", "x"}, "give one of the two"},
		"a bundle and a cluster":           {[]string{"history", "--bundle", "x.tar.gz", "--dir", "x"}, "leave out --dir"},
		"an index without a bundle":        {[]string{"state", "--at", "7", "--dir", "x"}, "give --bundle too"},
		"a format that is none":            {[]string{"doctor", "--host", "-o", "xml"}, "no output format"},
		"no file":                          {[]string{"bundle"}, "the file to write"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				code, _, stderr := runCommand(tc.args...)
				require.Equal(t, exit.Usage, code, stderr)
				require.Contains(t, stderr, tc.stderr)
			}
		})
	}
	flags := serveAdmin(t, &fakeDoctorAPI{})
	for args, want := range map[string][]string{
		"neither in .tar.gz nor in .tar.zst": {"bundle", "x.zip"},
		"NAME=HOST:PORT":                     {"bundle", "x.tar.gz", "--metrics", "c1"},
		"below zero":                         {"bundle", "x.tar.gz", "--since", "-1h"},
		"give one of the two":                {"bundle", "x.tar.gz", "--since", "1h", "--entries", "3"},
	} {
		code, _, stderr := runCommand(append(want, flags...)...)
		require.Contains(t, stderr, args)
		require.Equal(t, exit.Usage, code, stderr)
	}
}

func TestADoctorThatLearnsNothingDoesNotExitAsIfAllWereWell(t *testing.T) {
	older := serveAdmin(t, adminpb.UnimplementedAdminServer{})
	for range 2 {
		code, _, stderr := runCommand(append([]string{"doctor"}, older...)...)
		require.Equal(t, exit.Unavailable, code)
		require.Contains(t, stderr, "an older build")
		code, _, stderr = runCommand("doctor", "--endpoints", "127.0.0.1:1", older[2], older[3], older[4], older[5], older[6], older[7])
		require.Equal(t, exit.Unavailable, code)
		require.Contains(t, stderr, "refused")
		file := filepath.Join(t.TempDir(), "report.tar.gz")
		code, _, stderr = runCommand("bundle", file, "--endpoints", "127.0.0.1:1", older[2], older[3], older[4], older[5], older[6], older[7])
		require.Equal(t, exit.Unavailable, code)
		require.Contains(t, stderr, "nothing could be gathered")
		require.NoFileExists(t, file)
	}
}

func TestTheEnvironmentOfADaemonDoesNotKeepTheDoctorFromTheCluster(t *testing.T) {
	flags := serveAdmin(t, &fakeDoctorAPI{severities: []string{"ok"}})
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	_, _, _ = runCommand(append([]string{"bundle", path}, flags...)...)
	t.Setenv("HOLDFAST_DATA_DIR", "/var/lib/holdfast/node")
	t.Setenv("HOLDFAST_POOL", "lvm:vg/pool")
	t.Setenv("HOLDFAST_ENDPOINTS", "127.0.0.1:1")
	for range 2 {
		code, _, stderr := runCommand(append([]string{"doctor"}, flags...)...)
		require.Equal(t, exit.OK, code, stderr)
		code, _, stderr = runCommand("doctor", "--bundle", path)
		require.Equal(t, exit.OK, code, stderr)
	}
}

func TestTheDoctorOfAHostNeedsNoCluster(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	for range 2 {
		_, stdout, stderr := runCommand("doctor", "--host", "--role", "controller", "--data-dir", dir, "--all")
		require.Empty(t, stderr)
		require.Contains(t, stdout, "the data folder "+dir+" has mode 0755")
		require.Contains(t, stdout, "durable writes below the data folder")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
