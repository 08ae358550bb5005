package verbs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// backups asks for backups of a cluster in trouble.
type backups struct {
	*operator
	co           *harness.CO
	acknowledged int // volumes; none is deleted
	asked, done  int
	folder       string
}

func (b *backups) create() {
	b.t.Helper()
	_, err := b.co.Create(b.t.Context(), harness.Spec{Name: fmt.Sprint("v", b.acknowledged), Size: 8 * harness.Mi})
	require.NoError(b.t, err)
	b.acknowledged++
}

func (b *backups) flags(endpoints ...string) []string {
	admin := b.certificate("admin", "dev")
	return []string{"--endpoints", strings.Join(endpoints, ","), "--cert", admin + ".crt", "--key", admin + ".key",
		"--ca", filepath.Join(filepath.Dir(admin), "ca.crt")}
}

func (b *backups) api(ids ...string) (addresses []string) {
	l, err := b.Layout()
	require.NoError(b.t, err)
	for _, c := range l.Controllers {
		for _, id := range ids {
			if c.ID == id {
				addresses = append(addresses, c.API)
			}
		}
	}
	return addresses
}

// backup asks for a backup. One that is reported as done has all that was acknowledged before it was asked for; one that is not
// leaves nothing under its name.
func (b *backups) backup(endpoints ...string) bool {
	b.t.Helper()
	b.asked++
	path, acknowledged := filepath.Join(b.folder, fmt.Sprint("backup-", b.asked)), b.acknowledged
	res := b.Run(b.t.Context(), append([]string{"backup", path}, b.flags(endpoints...)...)...)
	if res.Code != 0 {
		require.NoFileExists(b.t, path, res.Stderr)
		return false
	}
	b.done++
	said := b.must("backup", "verify", path)
	count := regexp.MustCompile(`(?m)^volumes +(\d+)$`).FindStringSubmatch(said)
	require.NotNil(b.t, count, said)
	has, err := strconv.Atoi(count[1])
	require.NoError(b.t, err)
	require.GreaterOrEqual(b.t, has, acknowledged, "an acknowledged volume is missing")
	return true
}

// TestS24_BackupsDuringElections: the controller that streams a backup is killed in the middle of it, and leaders are killed in a loop while
// backups are asked for.
func TestS24_BackupsDuringElections(t *testing.T) {
	o := start(t, harness.Options{Supervise: true})
	b := &backups{operator: o, co: o.NewCO(), folder: t.TempDir()}
	gate := o.openGate()
	for step := 1; step <= 2; step++ {
		b.create()
		require.NoError(t, o.AwaitAgreement(t.Context()))
		gate.Arm(step, func() bool {
			_, err := o.Signal("c1", syscall.SIGKILL)
			require.NoError(t, err)
			return false
		})
		b.backup(append([]string{gate.Address}, b.api("c2", "c3")...)...)
		require.True(t, gate.Halted(), "the stream has fewer than %d steps", step)
	}
	gate.Arm(0, nil)
	for range 3 {
		leader, err := o.Leader(t.Context())
		require.NoError(t, err)
		b.create()
		_, err = o.Signal(leader, syscall.SIGKILL)
		require.NoError(t, err)
		for range 3 {
			b.backup(b.api("c1", "c2", "c3")...)
		}
	}
	require.NoError(t, o.AwaitAgreement(t.Context()))
	require.True(t, b.backup(b.api("c1", "c2", "c3")...))
	t.Logf("%d of %d backups were written", b.done, b.asked)
}

// TestABackupIntoAFullTargetLeavesTheOlderOnes: a target without space keeps what it has, and gets no half of a backup.
func TestABackupIntoAFullTargetLeavesTheOlderOnes(t *testing.T) {
	o := start(t, harness.Options{})
	b := &backups{operator: o, co: o.NewCO(), folder: t.TempDir()}
	b.create()
	target, err := harness.MakeDisk(t.Context(), filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "target"), 16*harness.Mi)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Remove(context.Background())) })
	b.folder = target.Root()
	require.True(t, b.backup(b.api("c1")...))
	older, err := os.ReadFile(filepath.Join(b.folder, "backup-1"))
	require.NoError(t, err)
	require.NoError(t, target.Fill(0))
	for range 2 {
		path := filepath.Join(b.folder, "another")
		for _, path := range []string{path, filepath.Join(b.folder, "backup-1")} { // a new one, and in the place of the older one
			res := o.Run(t.Context(), append([]string{"backup", path}, b.flags(b.api("c1")...)...)...)
			require.NotZero(t, res.Code)
			require.Contains(t, res.Stderr, "no space")
		}
		now, err := os.ReadFile(filepath.Join(b.folder, "backup-1"))
		require.NoError(t, err)
		require.Equal(t, older, now)
		files, err := filepath.Glob(filepath.Join(b.folder, "*backup*"))
		require.NoError(t, err)
		require.Len(t, files, 1, "nothing is left of those that failed")
		require.NoFileExists(t, path)
	}
	o.must("backup", "verify", filepath.Join(b.folder, "backup-1"))
	require.NoError(t, target.Free())
	require.True(t, b.backup(b.api("c1")...))
}
