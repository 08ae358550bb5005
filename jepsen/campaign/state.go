package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// state is how far a campaign is. It is written after each run of a layer, so what is lost with an interruption is one run.
type state struct {
	path   string
	Layers map[catalog.Layer]*progress `json:"layers"`
}

// progress is what one layer has done.
type progress struct {
	Next     int           `json:"next"` // the first seed that was not used yet; it survives a campaign
	Seeds    int           `json:"seeds"`
	Runs     int           `json:"runs"`
	Took     time.Duration `json:"took_ns"`
	Failures []string      `json:"failures,omitempty"` // seeds, or the logs of runs, that failed
}

// openState reads the state; of a campaign that is not to be continued only which seeds are used.
func openState(dir string, resume bool) (*state, error) {
	s := &state{path: filepath.Join(dir, "state.json"), Layers: map[catalog.Layer]*progress{}}
	content, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(content, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read how far the campaign is: %w", err)
	}
	if !resume {
		for name, p := range s.Layers {
			s.Layers[name] = &progress{Next: p.Next}
		}
	}
	return s, nil
}

// of is the layer's progress.
func (s *state) of(l *layer) *progress {
	if s.Layers[l.name] == nil {
		s.Layers[l.name] = &progress{Next: 1}
	}
	return s.Layers[l.name]
}

// save replaces the file in one step.
func (s *state) save() error {
	content, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return fmt.Errorf("encode how far the campaign is: %w", err)
	}
	if err := os.WriteFile(s.path+".new", content, 0o644); err != nil {
		return fmt.Errorf("write how far the campaign is: %w", err)
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		return fmt.Errorf("write how far the campaign is: %w", err)
	}
	return nil
}

// took is what all layers took together.
func (s *state) took() (all time.Duration) {
	for _, p := range s.Layers {
		all += p.Took
	}
	return all
}

// failures are those of all layers.
func (s *state) failures() (all []string) {
	for _, l := range layers {
		if p := s.Layers[l.name]; p != nil {
			all = append(all, p.Failures...)
		}
	}
	return all
}
