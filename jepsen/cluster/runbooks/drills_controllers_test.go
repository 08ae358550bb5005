package runbooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// member is a controller as `members list` shows it.
type member struct {
	ID       string `json:"id"`
	MemberID string `json:"member_id"`
	Address  string `json:"address"`
}

func (o *operations) members() map[string]member {
	o.t.Helper()
	var list struct{ Members []member }
	out := o.must("members", "-o", "json")
	require.NoError(o.t, json.Unmarshal([]byte(out), &list), out)
	members := map[string]member{}
	for _, m := range list.Members {
		members[m.ID] = m
	}
	return members
}

func (o *operations) unknownTrouble(s *shell) {
	for name, from := range map[string]string{"ENDPOINTS": "HOLDFAST_ENDPOINTS", "CERT": "HOLDFAST_CERT", "KEY": "HOLDFAST_KEY", "CA_FILE": "HOLDFAST_CA"} {
		s.set(name, s.env[from])
	}
	require.NoError(o.t, o.Kill(o.t.Context(), "c3"))
	_, err := s.try(0)
	require.ErrorContains(o.t, err, "exit status 1")
	require.ErrorContains(o.t, err, "c3")
	require.NoError(o.t, o.StartChild(o.t.Context(), "c3"))
	require.NoError(o.t, o.AwaitAgreement(o.t.Context()))
	s.retry(func(out string) bool { return strings.Contains(out, "0 errors") })
	s.run()
	s.retry(func(string) bool { return true })
}

func (o *operations) fullDisk(s *shell) {
	require.NoError(o.t, o.Kill(o.t.Context(), "c3"))
	disk, err := o.PutOnDisk(o.t.Context(), "c3", 640*harness.Mi)
	require.NoError(o.t, err)
	o.disks = append(o.disks, disk)
	require.NoError(o.t, disk.Fill(8*harness.Mi))
	res := o.Run(o.t.Context(), "dev", "start", "--dir", o.Dir, "c3")
	require.Contains(o.t, []int{0, 3}, res.Code, res.Stderr) // it runs, and may say that it is not ready
	require.NoError(o.t, harness.Poll(o.t.Context(), harness.Patience, "the doctor to see a full disk", func() (bool, error) {
		res := o.Run(o.t.Context(), "doctor", "--dir", o.Dir)
		return row("error", "member c3")(res.Stdout), errors.New(res.Stdout)
	}))
	s.on("c3")
	s.set("FILE", filepath.Join(disk.Root(), "filler"))
	s.run()
	s.run()
	s.retry(row("c3", "true"))
	require.NoError(o.t, o.AwaitAgreement(o.t.Context()))
}

func (o *operations) deadController(s *shell) {
	before := o.members()
	require.NoError(o.t, o.Kill(o.t.Context(), "c3"))
	o.disks = slices.DeleteFunc(o.disks, func(d *harness.Disk) bool {
		dead := d != o.pool
		if dead {
			require.NoError(o.t, d.Remove(o.t.Context()))
		}
		return dead
	})
	s.set("MEMBER", "c3")
	s.set("MEMBER_ID", s.find(s.run(), "("+before["c3"].MemberID+")"))
	s.on("c3")
	s.run()
	s.retry(func(string) bool { return true })
	s.retry(row("c3", "true"))
	require.NotEqual(o.t, before["c3"].MemberID, o.members()["c3"].MemberID)
	require.Len(o.t, o.members(), 3)
}

// beginAgain starts the other controllers with empty folders.
func (o *operations) beginAgain(s *shell, first string, others ...string) {
	s.on(others[0])
	s.run()
	s.on(others[1])
	s.again()
}

func (o *operations) adopted(s *shell) string {
	s.set("INCARNATION", s.find(s.retry(func(out string) bool { return strings.Contains(out, "0 waiting") }), `\(incarnation (\d+)\)`))
	s.retry(func(string) bool { return true })
	return s.env["INCARNATION"]
}

func allVote(out string) bool {
	return strings.Count(out, " follower ")+strings.Count(out, " leader ") >= 3
}

func (o *operations) lostQuorum(s *shell) {
	v := o.create("kept", "n1")
	require.NoError(o.t, o.AwaitAgreement(o.t.Context()))
	members := o.members()
	l, err := o.Layout()
	require.NoError(o.t, err)
	for _, id := range []string{"c1", "c2"} {
		require.NoError(o.t, o.Kill(o.t.Context(), id))
		require.NoError(o.t, os.RemoveAll(l.DataDir(id)))
	}
	s.on("c3")
	s.set("LOST", members["c1"].MemberID)
	s.set("ALSO_LOST", members["c2"].MemberID)
	s.set("ADDRESS", members["c3"].Address)
	s.run()
	s.run()
	s.run()
	o.beginAgain(s, "c3", "c1", "c2")
	require.Equal(o.t, "2", o.adopted(s))
	s.retry(allVote)
	o.requireVolume(v)
}

func (o *operations) requireVolume(v *harness.Volume) {
	o.t.Helper()
	listed, err := o.co.List(o.t.Context())
	require.NoError(o.t, err)
	require.Contains(o.t, listed, v.ID)
}

// backedUp is the newest whole backup with its increments, when they have all volumes that there are.
func (o *operations) backedUp() (full, increments string) {
	o.t.Helper()
	listed, err := o.co.List(o.t.Context())
	require.NoError(o.t, err)
	require.NoError(o.t, harness.Poll(o.t.Context(), harness.Patience, "a backup of now", func() (bool, error) {
		full, increments = "", ""
		for line := range strings.Lines(o.Run(o.t.Context(), "backup", "list", "--backup-to", o.backups).Stdout) {
			fields := strings.Fields(line)
			switch path := filepath.Join(o.backups, fields[len(fields)-1]); {
			case fields[0] == "full":
				full, increments = path, ""
			case fields[0] == "increment":
				increments += " " + path
			}
		}
		res := o.Run(o.t.Context(), append([]string{"backup", "verify", full}, strings.Fields(increments)...)...)
		return increments != "" && regexp.MustCompile(fmt.Sprintf(`(?m)^volumes +%d$`, len(listed))).MatchString(res.Stdout), errors.New(res.Stdout + res.Stderr)
	}))
	return full, increments
}

func (o *operations) lostControllers(s *shell) {
	old := o.create("in-the-backup", "n1")
	full, increments := o.backedUp()
	recent := o.create("after-the-backup", "n1")
	members := o.members()
	l, err := o.Layout()
	require.NoError(o.t, err)
	for _, id := range []string{"c1", "c2", "c3"} {
		require.NoError(o.t, o.Kill(o.t.Context(), id))
		require.NoError(o.t, os.RemoveAll(l.DataDir(id)))
	}
	s.set("BACKUPS", o.backups)
	s.set("BACKUP", full)
	s.set("INCREMENTS", increments)
	s.set("ADDRESS", members["c1"].Address)
	s.run()
	s.on("c1")
	s.run()
	s.run()
	o.beginAgain(s, "c1", "c2", "c3")
	require.Equal(o.t, "3", o.adopted(s))
	s.run()
	s.retry(allVote)
	o.requireVolume(old)
	o.requireVolume(recent)
}
