package controller

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

func TestBackupFlags(t *testing.T) {
	dir := t.TempDir()
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	recipients, empty := filepath.Join(dir, "recipients"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(recipients, []byte(identity.Recipient().String()+"\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	flags := func(to string) backupFlags {
		return backupFlags{BackupTargetFlags: daemon.BackupTargetFlags{Options: target.Options{To: to}}, interval: time.Hour, increments: time.Minute, keep: 1}
	}
	for name, tc := range map[string]struct {
		to      string
		change  func(*backupFlags)
		problem string
	}{
		"none":                     {to: "", change: func(f *backupFlags) { f.interval = 0 }},
		"a folder":                 {to: dir, change: func(f *backupFlags) { f.recipientsFile = recipients }},
		"S3":                       {to: "s3://bucket/prefix", change: func(f *backupFlags) { f.increments = 0 }},
		"a relative folder":        {to: "backups", change: func(*backupFlags) {}, problem: "--backup-to"},
		"too often":                {to: dir, change: func(f *backupFlags) { f.interval = time.Millisecond }, problem: "--backup-interval"},
		"increments too often":     {to: dir, change: func(f *backupFlags) { f.increments = -1 }, problem: "--backup-increments"},
		"fewer than none are kept": {to: dir, change: func(f *backupFlags) { f.keep = -1 }, problem: "--backup-keep"},
		"no file of recipients":    {to: dir, change: func(f *backupFlags) { f.recipientsFile = "/nowhere" }, problem: "recipients"},
		"an empty file of them":    {to: dir, change: func(f *backupFlags) { f.recipientsFile = empty }, problem: "recipients"},
	} {
		t.Run(name, func(t *testing.T) {
			f := flags(tc.to)
			tc.change(&f)
			for range 2 {
				to, _, err := f.open()
				if tc.problem == "" {
					require.NoError(t, err)
					require.Equal(t, tc.to == "", to == nil)
					continue
				}
				require.ErrorContains(t, err, tc.problem)
				require.Equal(t, exit.Usage, exit.Code(err))
			}
		})
	}
}

func TestNoBackupBeforeTheMemberRuns(t *testing.T) {
	c := &controller{cluster: &cluster{}}
	for range 2 {
		require.ErrorIs(t, c.takeBackup(t.Context(), admin.BackupRequest{Stale: true}, &bytes.Buffer{}), raftnode.ErrNotLeader)
	}
}
