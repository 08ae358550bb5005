package controller

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/bootstrap"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// lookEvery is how often it is looked whether this controller needs another certificate.
const lookEvery = time.Minute

// readVerdict takes up what kube-init decided. Without a decision this controller does not start: it would be a guess.
func (o *options) readVerdict() error {
	if o.bootstrapFrom == "" {
		return nil
	}
	v, err := bootstrap.ReadVerdict(o.bootstrapFrom)
	if err != nil {
		return exit.Wrap(exit.Refused, err)
	}
	o.bootstrap = v.Bootstrap
	return nil
}

// issueOwn makes this controller's certificate with the CA in --ca-dir, where --self-issue asks for it and it is due.
func (o *options) issueOwn(log *slog.Logger) error {
	if !o.enrollFlags.selfIssue {
		return nil
	}
	o.Join.FilesInDir(&o.Files)
	changed, err := pki.IssueOwn(o.enrollFlags.caDir, o.Files, pki.Identity{Role: pki.Controller, Name: o.name}, enroll.Validity, time.Now())
	if err != nil {
		return exit.Usagef("--self-issue: %w", err)
	}
	if changed {
		log.Info("this controller issued itself a certificate", "name", o.name, "file", o.Files.Cert)
	}
	return nil
}

// keepOwn keeps the certificate good until ctx ends. The certificate's expiry is a metric, and is warned of.
func (c *controller) keepOwn(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for c.enrollFlags.selfIssue {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := c.issueOwn(c.log); err != nil {
			c.log.Error("this controller cannot issue itself a certificate", "error", err)
		}
	}
}
