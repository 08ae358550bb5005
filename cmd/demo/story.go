package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// story is one telling of it.
type story struct {
	out     io.Writer
	binary  string
	began   time.Time
	chapter int
	cluster *harness.Cluster
	co      *harness.CO
	staged  []*used                    // the volumes that are in use, with what was written to them
	all     map[string]*harness.Volume // every volume, by name

	snapshot string // the id of the one that is cut
}

// scene is one part of the story; it answers an error when it does not hold.
type scene struct {
	title string
	play  func(context.Context) error
}

// tell plays all scenes and cleans up, whatever happened.
func (s *story) tell(ctx context.Context) (err error) {
	if s.binary, err = filepath.Abs(s.binary); err != nil {
		return err
	}
	s.all = map[string]*harness.Volume{}
	defer func() {
		if s.cluster != nil {
			err = errors.Join(err, s.cluster.Clean(context.WithoutCancel(ctx)))
		}
	}()
	for _, scene := range []scene{
		{"Three controllers and a node start, each a process of its own", s.start},
		{"Volumes are created, each at another controller", s.create},
		{"They are published, formatted, mounted and written to", s.use},
		{"A burst of creates, and in the middle of it the leader is killed", s.burst},
		{"Every name has exactly one volume and one file", s.oneEach},
		{"Each volume in use has exactly one loop device; the others have none", s.devices},
		{"The data is what was written", s.verify},
		{"A snapshot is cut under a writer and restored as a new volume", s.restore},
		{"A volume grows while it is mounted", s.grow},
		{"What the log remembers of one volume", s.history},
		{"The audit, and the members' states", s.audit},
		{"Everything is taken down again", s.takeDown},
	} {
		if err := s.play(ctx, scene); err != nil {
			return fmt.Errorf("%s: %w", scene.title, err)
		}
	}
	s.say("")
	s.say("Done in %s.", s.since(s.began))
	return nil
}

func (s *story) play(ctx context.Context, scene scene) error {
	s.chapter++
	s.say("")
	s.say("%d. %s", s.chapter, scene.title)
	begin := time.Now()
	if err := scene.play(ctx); err != nil {
		return err
	}
	s.say("   (%s)", s.since(begin))
	return nil
}

// say prints a line of the story.
func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// tellOf prints a line that belongs to a scene.
func (s *story) tellOf(format string, args ...any) { s.say("   "+format, args...) }

func (s *story) since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
