package controller

import (
	"time"

	"github.com/spf13/pflag"

	"filippo.io/age"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/schedule"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// backupFlags are those of scheduled backups. Without a target there are none.
type backupFlags struct {
	daemon.BackupTargetFlags

	interval, increments time.Duration
	keep                 int
	recipientsFile       string
}

func (f *backupFlags) add(flags *pflag.FlagSet) {
	f.BackupTargetFlags.Add(flags)
	flags.DurationVar(&f.interval, "backup-interval", 6*time.Hour, "how often the leader writes the whole state to --backup-to")
	flags.DurationVar(&f.increments, "backup-increments", 5*time.Minute, "how often the leader writes what was decided since; 0: never")
	flags.IntVar(&f.keep, "backup-keep", 28, "how many whole backups of the cluster's incarnation are kept, with what was decided since each; 0: all")
	flags.StringVar(&f.recipientsFile, "backup-recipients-file", "", "encrypt backups to those that this `file` lists, age1... one a line")
}

// open checks the flags; without a target it is nil.
func (f *backupFlags) open() (target.Target, []age.Recipient, error) {
	switch {
	case f.To == "":
		return nil, nil, nil
	case f.interval < time.Second || f.increments < 0 || f.increments != 0 && f.increments < time.Second:
		return nil, nil, exit.Usagef("--backup-interval %s and --backup-increments %s: choose at least one second", f.interval, f.increments)
	case f.keep < 0:
		return nil, nil, exit.Usagef("--backup-keep %d is below zero", f.keep)
	}
	recipients, err := backup.Recipients(nil, f.recipientsFile)
	if err != nil {
		return nil, nil, exit.Wrap(exit.Usage, err)
	}
	to, err := target.Open(f.Options)
	if err != nil {
		return nil, nil, exit.Usagef("--backup-to: %w", err)
	}
	return to, recipients, nil
}

// openBackups makes the scheduler once the member runs; it is nil without --backup-to.
func (c *controller) openBackups() (err error) {
	to, recipients, err := c.backup.open()
	if to == nil || err != nil {
		return err
	}
	c.backups, err = schedule.New(schedule.Options{
		Member: c.member, Target: to, Name: c.name, Interval: c.backup.interval, Increments: c.backup.increments, Keep: c.backup.keep,
		Recipients: recipients, Logger: c.log, Metrics: c.registry,
	})
	return err
}
