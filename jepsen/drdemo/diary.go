package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// diary is what a workload writes: numbered entries, each on stable storage before the next.
type diary struct {
	acked uint64 // the last entry that was acknowledged, to whichever site's workload
	job   *lab.Job
	acks  string // the file on this host that says what was acknowledged; it outlives the guest's power
	turns int
}

// keepDiary starts the workload at a site, from the entry after the last one.
func (d *demo) keepDiary(ctx context.Context, s *site) error {
	d.diary.turns++
	name := fmt.Sprintf("diary-%d", d.diary.turns)
	job, err := s.guest.Start(ctx, name, nil, "/run/lab/writer", "write", "--path", target+"/diary", "--acks", "/lab/"+name,
		"--stamp", "site "+s.name, "--from", fmt.Sprint(d.diary.acked+1), "--eager", "1000000")
	d.diary.job, d.diary.acks = job, filepath.Join(s.guest.Shared(), name)
	return err
}

// readAcks is the last entry that was acknowledged, and the error that ended the workload.
func (d *demo) readAcks() (number uint64, failed string) {
	var said struct {
		Number uint64 `json:"number"`
		Error  string `json:"error"`
	}
	if text, err := os.ReadFile(d.diary.acks); err == nil {
		_ = json.Unmarshal(text, &said) // the first write may not be there yet
	}
	return max(said.Number, d.diary.acked), said.Error
}

// awaitEntries waits until so many more entries were acknowledged.
func (d *demo) awaitEntries(ctx context.Context, more uint64) error {
	before, _ := d.readAcks()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		switch now, failed := d.readAcks(); {
		case failed != "":
			return errors.New("the workload ended: " + failed)
		case now >= before+more:
			return nil
		case time.Now().After(deadline) || ctx.Err() != nil:
			return fmt.Errorf("the workload stays at entry %d", now)
		}
	}
}

// endDiary ends the workload. It was acknowledged what it was acknowledged.
func (d *demo) endDiary(ctx context.Context) error {
	if err := d.diary.job.Kill(ctx); err != nil {
		return err
	}
	_, err := d.diary.job.Wait(ctx)
	d.diary.acked, _ = d.readAcks()
	return err
}

// verifyDiary requires that every acknowledged entry is there.
func (d *demo) verifyDiary(ctx context.Context, s *site) error {
	out, err := output(ctx, s.guest, fmt.Sprintf("/run/lab/writer check --path %s/diary --acked %d", target, d.diary.acked))
	if err != nil {
		return err
	}
	var found struct {
		Highest uint64   `json:"highest"`
		Missing []uint64 `json:"missing"`
		Stamps  []string `json:"stamps"`
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return err
	}
	if len(found.Missing) > 0 || found.Highest < d.diary.acked {
		return fmt.Errorf("of %d acknowledged entries %d are lost: %v", d.diary.acked, len(found.Missing), found.Missing)
	}
	d.printStepf("the diary ends with entry %d; %d were acknowledged, none is missing; written by %v", found.Highest, d.diary.acked, found.Stamps)
	return nil
}
