package runbooks

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// issue issues a certificate, and returns its folder.
func (o *operations) issue(folder, role, name, validity string) string {
	o.t.Helper()
	res := o.Run(o.t.Context(), "ca", "issue", "--ca-dir", filepath.Join(o.Dir, "ca"), "--out", folder, "--role", role, "--name", name, "--validity", validity)
	require.Zero(o.t, res.Code, res.Stderr)
	return folder
}

// as runs a command with the certificate of an admin.
func (o *operations) as(folder, name string, args ...string) harness.Result {
	l, err := o.Layout()
	require.NoError(o.t, err)
	base := filepath.Join(folder, "admin-"+name)
	return o.Run(o.t.Context(), append(args, "--endpoints", l.Controllers[0].API, "--cert", base+".crt", "--key", base+".key", "--ca", filepath.Join(folder, "ca.crt"))...)
}

// accepts waits until a certificate is accepted. It lists volumes: how `status` ends depends on the state of the cluster.
func (o *operations) accepts(folder, name string) {
	o.t.Helper()
	o.answers(folder, name, "that it is accepted", func(res harness.Result) bool { return res.Code == 0 })
}

// refuses waits until a certificate is refused, with the reason.
func (o *operations) refuses(folder, name, reason string) {
	o.t.Helper()
	o.answers(folder, name, "that it is refused: "+reason, func(res harness.Result) bool {
		return res.Code != 0 && strings.Contains(res.Stderr, reason)
	})
}

func (o *operations) answers(folder, name, what string, is func(harness.Result) bool) {
	o.t.Helper()
	var last harness.Result
	err := harness.Poll(o.t.Context(), harness.Patience, "the certificate of "+name+" to be told "+what, func() (bool, error) {
		last = o.as(folder, name, "volumes")
		return is(last), nil
	})
	require.NoError(o.t, err, "exit code %d: %s", last.Code, last.Stderr)
}

func (o *operations) expiredCertificate(s *shell) {
	mine := o.issue(filepath.Join(o.t.TempDir(), "ops"), "admin", "ops", "1s")
	o.refuses(mine, "ops", "expired on")
	s.set("WITHIN", "720h")
	s.set("FOLDER", mine)
	s.run()
	s.run()
	o.accepts(mine, "ops")
	node := filepath.Join(o.Dir, "pki", "node-n1")
	require.NoError(o.t, harness.AgeCertificate(filepath.Join(o.Dir, "ca"), filepath.Join(node, "node-n1.crt"), 48*time.Hour, time.Hour))
	s.set("FOLDER", node)
	soon := func(out string) bool { return strings.Contains(out, "expires") }
	require.NoError(o.t, harness.Poll(o.t.Context(), harness.Patience, "n1 to be about to expire", func() (bool, error) { return row("n1", "expires")(o.must("nodes")), nil }))
	s.next = 0
	s.run()
	s.retry(func(out string) bool { return !soon(out) && row("n1", "reachable ")(out) })
}

// issuers are by whom what is in use was issued.
func (s *shell) issuers(out string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.Contains(fields[0], "/") {
			found[fields[3]] = true
		}
	}
	return found
}

func (o *operations) stolenKey(s *shell) {
	stolen := o.issue(filepath.Join(o.t.TempDir(), "eve"), "admin", "eve", "2160h")
	o.accepts(stolen, "eve")
	s.set("ROLE", "admin")
	s.set("NAME", "eve")
	s.set("UNTIL", s.find(s.run(), `--issued-until (\S+) --yes`))
	s.run()
	o.refuses(stolen, "eve", "revoked")
	s.set("FOLDER", filepath.Join(o.t.TempDir(), "eve-again"))
	o.awaitSecondAfter(s.env["UNTIL"])
	s.run()
	o.accepts(s.env["FOLDER"], "eve")
	o.refuses(stolen, "eve", "revoked")
	s.run()
	require.Contains(o.t, s.run(), "revoked")
}

// awaitSecondAfter waits for the second after a time: certificates say in whole seconds when they were issued.
func (o *operations) awaitSecondAfter(text string) {
	until, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(o.t, err)
	require.NoError(o.t, harness.Poll(o.t.Context(), harness.Patience, "the second after "+text, func() (bool, error) {
		return time.Now().Truncate(time.Second).After(until), nil
	}))
}

func (o *operations) bugReport(s *shell) {
	s.set("BUNDLE", filepath.Join(o.t.TempDir(), "bug.tar.gz"))
	s.run()
	require.Contains(o.t, s.run(), "manifest.json")
	s.run()
}
