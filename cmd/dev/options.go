package dev

import (
	"io"
	"strconv"
	"time"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Options configures a developer's cluster.
type Options struct {
	Dir                string
	Controllers, Nodes int
	Supervise          bool
	ReadyTimeout       time.Duration
	AllowRoots         []string
	LogStore           string
	LogLevel           string
	Overcommit         float64
	FaultPoints        bool
	ControllerArgs     []string // further flags of every controller
	NodeArgs           []string // further flags of every node
	Sites              []string // of the controllers one after the other, and of the nodes; nil: there is one
	EchoLogs           bool

	// Binary is the path of this program.
	Binary         string
	Stdout, Stderr io.Writer
	// restartAfter is the delay before a child that died is restarted.
	restartAfter time.Duration
	// minLifetime is the lifetime below which a child counts as unable to start.
	minLifetime time.Duration
	// deathTimeout is how long the end of a child that is to be started again is waited for.
	deathTimeout time.Duration
	// argv replaces the command lines of children in tests.
	argv func(id string) []string
}

// commandLine returns the command line of a child. --bootstrap is only for the very first start: a
// controller with an emptied directory must join the existing cluster, not create another.
func (o *Options) commandLine(l layout, s *settings, id string) []string {
	if o.argv != nil {
		return o.argv(id)
	}
	if _, isNode := nodeNumber(s, id); isNode {
		return o.nodeLine(l, s, id)
	}
	return o.controllerLine(l, s, id)
}

func nodeNumber(s *settings, id string) (int, bool) {
	for i, n := range ids("n", s.Nodes) {
		if n == id {
			return i, true
		}
	}
	return 0, false
}

func (o *Options) controllerLine(l layout, s *settings, id string) []string {
	args := append([]string{o.Binary, "controller", "--name", id,
		"--data-dir", l.controller(id),
		"--raft-listen", s.address(id, "raft"), "--api-listen", s.address(id, "api"),
		"--metrics-listen", s.address(id, "metrics"), "--csi-endpoint", l.endpoint(id),
		"--log-level", o.LogLevel,
	}, fileArgs(l.files(pki.Controller, id))...)
	if o.LogStore != "" {
		args = append(args, "--log-store", o.LogStore)
	}
	if id == "c1" && !s.Founded {
		args = append(args, "--bootstrap")
	}
	for _, other := range ids("c", s.Controllers) {
		if other != id && (id != "c1" || s.Founded) {
			args = append(args, "--join", s.address(other, "raft"))
		}
	}
	return append(append(args, o.siteArgs(id)...), o.ControllerArgs...)
}

// siteArgs are the flags that say at which site a child is.
func (o *Options) siteArgs(id string) []string {
	number, err := strconv.Atoi(id[1:])
	if err != nil || len(o.Sites) == 0 {
		return nil
	}
	return []string{"--site", o.Sites[(number-1)%len(o.Sites)]}
}

func (o *Options) nodeLine(l layout, s *settings, id string) []string {
	args := append([]string{o.Binary, "node", "--node-id", id,
		"--data-dir", l.nodeData(id), "--pool-dir", l.pool(id),
		"--metrics-listen", s.address(id, "metrics"), "--csi-endpoint", l.endpoint(id),
		"--log-level", o.LogLevel,
	}, fileArgs(l.files(pki.Node, id))...)
	for _, c := range ids("c", s.Controllers) {
		args = append(args, "--endpoints", s.address(c, "api"))
	}
	for _, root := range o.AllowRoots {
		args = append(args, "--allow-root", root)
	}
	if o.Overcommit > 0 {
		args = append(args, "--overcommit", strconv.FormatFloat(o.Overcommit, 'f', -1, 64))
	}
	if o.FaultPoints {
		args = append(args, "--enable-fault-points")
	}
	return append(append(args, o.siteArgs(id)...), o.NodeArgs...)
}

func fileArgs(f pki.Files) []string {
	return []string{"--cert", f.Cert, "--key", f.Key, "--ca", f.CA}
}
