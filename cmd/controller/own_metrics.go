package controller

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// exportOwnMetrics registers what this controller knows of itself: its sessions, its clock and the configuration that
// it has.
func (c *controller) exportOwnMetrics() error {
	gauge := func(name, help string, value func() float64) error {
		return c.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	err := errors.Join(
		gauge("holdfast_session_hosts", "Hosts whose session this controller has. A host has one with any controller: take the sum.",
			func() float64 { return float64(c.sessions.Sessions()) }),
		gauge("holdfast_clock_ahead_seconds", "How far this controller's clock is ahead of the controllers' median, below zero behind it; 0 where no other answers.",
			func() float64 { return c.monitor.ClockAhead().Seconds() }),
		gauge("holdfast_cluster_members", "Members of the Raft configuration, whether they run or not.",
			func() float64 { return float64(len(c.member.Peers())) }),
	)
	if err != nil {
		return fmt.Errorf("register the metrics of this controller: %w", err)
	}
	return nil
}
