package certify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
)

// Run does what the plan says on the cluster of the facts, which it was made of, and reports. Whatever it made is removed when it
// returns, also when ctx ended; the error says so where that was not possible, and then the next run does it. What went wrong on the
// way is in the report, and no error; a run that is interrupted has no report.
func (r *Runner) Run(ctx context.Context, f *certify.Facts, plan *certify.Plan, left []*adminpb.Volume) (report *certify.Report, err error) {
	if r.run, err = newRun(); err != nil {
		return nil, err
	}
	r.ids, r.claims, r.youngest, r.ends, r.writes = map[string]string{}, 0, "", false, nil
	report = r.begin(f, plan)
	w := certify.World{Run: r.run, SizeBytes: plan.SizeBytes, Hosts: plan.Hosts, Controllers: len(r.each)}
	defer func() {
		if removeErr := r.removeAtEnd(ctx, w); removeErr != nil {
			report, err = nil, errors.Join(err, fmt.Errorf("scratch volumes are left, and the same command removes them: %w", removeErr))
		}
	}()
	if err := r.claim(ctx, w, left); err != nil {
		return nil, err
	}
	r.Progress("run %s: %d leftovers are removed first", r.run, len(left))
	if err := r.whileClaimed(ctx, w, func() error { return r.removeLeft(ctx, left) }); err != nil {
		return nil, err
	}
	if err := r.steps(ctx, report, plan, w); err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		report.Problems = append(report.Problems, err.Error())
	}
	r.finishReport(ctx, report, w)
	return report, ctx.Err()
}

// removeAtEnd removes what the run made, also after an interruption.
func (r *Runner) removeAtEnd(ctx context.Context, w certify.World) error {
	ctx = context.WithoutCancel(ctx)
	r.ends = true
	failed := r.removeWrites(ctx, w) // before the claims, which keep other runs away from what is not removed yet
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return errors.Join(failed, r.removeOwn(ctx))
}

func (r *Runner) begin(f *certify.Facts, plan *certify.Plan) *certify.Report {
	report := &certify.Report{
		Format: certify.Format, Cluster: r.Cluster, ClusterID: f.Status.GetClusterId(), Incarnation: f.Status.GetIncarnation(),
		FeatureLevel: f.Status.GetFeatureLevel(), Run: r.run, By: r.Actor, Version: r.Version, Begun: time.Now().UTC(), Plan: plan, Limits: certify.Limits(plan),
	}
	for _, m := range f.Members {
		report.Controllers = append(report.Controllers, certify.Member{Name: m.GetId(), ID: m.GetMemberId(), Version: m.GetVersion(), Voter: m.GetVoter()})
	}
	for _, n := range f.Nodes {
		report.Hosts = append(report.Hosts, certify.Host{Node: n.GetId(), HostID: n.GetHostId(), Version: n.GetVersion()})
	}
	return report
}

// steps are the checks and the handovers.
func (r *Runner) steps(ctx context.Context, report *certify.Report, plan *certify.Plan, w certify.World) error {
	if err := r.addHashes(ctx, report, "before"); err != nil {
		return err
	}
	for _, c := range certify.Checks() {
		r.Progress("%s", c.Name)
		if err := r.renewClaim(ctx, w); err != nil {
			return err
		}
		rows, err := r.check(ctx, &c, w)
		report.Rows = append(report.Rows, rows...)
		if err != nil {
			return err
		}
	}
	published, err := r.publishStaying(ctx, w)
	if err != nil {
		return err
	}
	if err := r.beginWrites(ctx, plan, w); err != nil {
		return err
	}
	for n, d := range r.disturbances(plan) {
		r.Progress("%d of %d: %s, while %d volumes are made", n+1, plan.Disturbances(), d.says, plan.Burst)
		if err := r.disturb(ctx, report, plan, w, n, d, published); err != nil {
			return err
		}
		if err := r.awaitWrites(ctx, w); err != nil {
			return err
		}
	}
	report.Rows = append(report.Rows, certify.JudgeContext(published, report.Handovers))
	return r.endWrites(ctx, report, plan, w)
}

// disturb does one of them, reports it, and removes what was made meanwhile.
func (r *Runner) disturb(ctx context.Context, report *certify.Report, plan *certify.Plan, w certify.World, n int, d disturbance, published string) error {
	if err := r.renewClaim(ctx, w); err != nil {
		return err
	}
	var h certify.Handover
	err := r.whileClaimed(ctx, w, func() (err error) { h, err = r.handover(ctx, w, n, d, published, plan.Burst); return err })
	if err != nil {
		return err
	}
	report.Handovers = append(report.Handovers, h)
	if len(report.Handovers) == plan.Disturbances() {
		if err := r.addAudit(ctx, report, "with scratch volumes"); err != nil {
			return err
		}
	}
	return r.removeBurst(ctx, &h)
}

// finishReport looks once more, when nothing of the run is left.
func (r *Runner) finishReport(ctx context.Context, report *certify.Report, w certify.World) {
	r.ends = true
	for _, step := range []func() error{
		func() error { return r.removeWrites(ctx, w) },
		func() error { return r.removeOwn(ctx) },
		func() error { return r.addAudit(ctx, report, "when all scratch volumes were removed") },
		func() error { return r.addHashes(ctx, report, "after") },
	} {
		if err := step(); err != nil {
			report.Problems = append(report.Problems, err.Error())
		}
	}
	report.Ended = time.Now().UTC()
	report.Conclude()
}

func (r *Runner) addAudit(ctx context.Context, report *certify.Report, when string) error {
	var a *adminpb.AuditResponse
	err := await(ctx, "audit the cluster", func(ctx context.Context) (err error) { a, err = r.audit(ctx); return err })
	if err == nil {
		report.Audits = append(report.Audits, certify.Audit{When: when, Index: a.GetIndex(), Checked: a.GetChecked(), Found: certify.AuditTroubles(a)})
	}
	return err
}

// addHashes waits until the controllers are in step.
func (r *Runner) addHashes(ctx context.Context, report *certify.Report, when string) error {
	return await(ctx, "compare the controllers' states", func(ctx context.Context) error {
		s, _, err := r.Client.Status(ctx)
		if err != nil {
			return err
		}
		h, err := certify.HashesOf(when, s)
		if err == nil {
			report.Hashes = append(report.Hashes, h)
		}
		return err
	})
}
