package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
	runner "github.com/holdfast-storage/holdfast/cmd/certify"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/cmd/node"
	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// certifyOptions are the flags of `certify`.
type certifyOptions struct {
	connection

	out       string
	size      int64
	burst     int
	restart   bool
	write     writeOptions
	yes       bool
	olderThan time.Duration
}

func certifyCommand() *cobra.Command {
	o := &certifyOptions{size: 32 << 20}
	cmd := &cobra.Command{Use: "certify", Short: "Show on this cluster what it survives, with scratch volumes, and sign a report of it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd) }}
	cmd.Long = "Checks those rows of the conformance suite that need no fault, and hands leadership over in the middle of creations, twice to\n" +
		"every controller; in Kubernetes it restarts each controller, too, and has pods write on hosts meanwhile and read back what was acknowledged, if it is asked to. It begins only where every controller and host is well, and uses scratch volumes alone, named\n" +
		certify.Prefix + "RUN-..., which it removes at the end, also when it is interrupted; a run some minutes later removes what a killed\n" +
		"one left, if nobody used it since. While a run is under way another is refused.\n" +
		"Without --yes it says what it would do, and does nothing. The report is signed with the key of your certificate, and lists what\n" +
		"was not checked. Exit code 1: something did not hold, or the cluster is not well; the report says what."
	o.addFlags(cmd, changeTimeout)
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", "", "`file` for the signed report, which is replaced; needed with --yes")
	flags.Var(node.BytesFlag(&o.size), "size", "of each scratch volume, in `bytes`; KiB, MiB, GiB and TiB are understood")
	flags.IntVar(&o.burst, "burst", 6, "`number` of volumes that are made in the middle of each handover")
	flags.DurationVar(&o.olderThan, "leftovers-older-than", 5*time.Minute, "what is younger is no leftover, as its run may be under way")
	flags.BoolVar(&o.restart, "restart-controllers", false, "also restart each controller in the middle of creations, one after another, by evicting its pod; with --kube")
	o.write.addFlags(flags)
	flags.BoolVar(&o.yes, "yes", false, "carry the plan out; without it, it is only shown")
	cmd.AddCommand(certifyVerifyCommand())
	return cmd
}

func (o *certifyOptions) run(ctx context.Context, cmd *cobra.Command) error {
	if o.olderThan < 0 {
		return exit.Usagef("--leftovers-older-than %s is below zero", o.olderThan)
	}
	if o.restart && !o.kube.wanted() {
		return exit.Usagef("--restart-controllers evicts pods: it needs --kube")
	}
	if err := o.write.check(cmd.Flags(), o.kube.wanted()); err != nil {
		return err
	}
	if o.yes && o.out == "" {
		return exit.Usagef("name the file for the signed report with --out")
	}
	if o.yes {
		if err := checkReplaceable(o.out); err != nil {
			return exit.Usagef("--out %s: the report could not be written: %w", o.out, err)
		}
	}
	client, creds, closing, err := o.openToTheEnd(ctx)
	if err != nil {
		return err
	}
	defer closing()
	if o.yes && creds.Identity().Role != pki.Admin {
		return exit.Refusedf("certify the cluster: %s may not make volumes: only an admin may", creds.Identity().Actor())
	}
	r := &runner.Runner{Client: client, Cluster: creds.Identity().Cluster, Actor: creds.Identity().Actor(), Version: daemon.Version(), OlderThan: o.olderThan,
		Progress: lines(cmd.ErrOrStderr())}
	facts, left, others, err := r.Look(ctx)
	if err != nil {
		return callError("look at the cluster", err)
	}
	if troubles := append(others, facts.Troubles()...); len(troubles) > 0 {
		return exit.Refusedf("nothing was done, for a cluster that is not well is not drilled: %s", strings.Join(troubles, "; "))
	}
	plan, err := certify.NewPlan(r.Cluster, facts, o.size, o.burst, left)
	if err != nil {
		return exit.Usagef("certify the cluster: %w", err)
	}
	if o.restart {
		if err := o.addRestarts(ctx, r, facts, plan); err != nil {
			return err
		}
	}
	if o.write.on {
		if err := o.addWrites(ctx, r, facts, plan); err != nil {
			return err
		}
	}
	if err := o.printPlan(cmd.OutOrStdout(), plan); err != nil {
		return err
	}
	if !o.yes {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was done: the same command with --out FILE --yes carries this out")
		return nil
	}
	return o.carryOut(ctx, cmd, r, creds, facts, plan, left)
}

// checkReplaceable tries whether a file can be written, and leaves it as it is: after a drill it would be too late.
func checkReplaceable(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return errors.New("it is no file")
	}
	probe, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// openToTheEnd is open, for a client that is still good when ctx was ended: what the run made is removed then.
func (o *certifyOptions) openToTheEnd(ctx context.Context) (*admin.Client, *pki.Credentials, func(), error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	giveUp := context.AfterFunc(ctx, end)
	client, creds, err := o.open(life)
	if giveUp(); err != nil {
		end()
	}
	return client, creds, end, err
}

// lines writes a line at a time, whoever has something to say.
func lines(to io.Writer) func(format string, a ...any) {
	var mu sync.Mutex
	return func(format string, a ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(to, format+"\n", a...)
	}
}

// addRestarts adds them to the plan, and how they are done.
func (o *certifyOptions) addRestarts(ctx context.Context, r *runner.Runner, facts *certify.Facts, plan *certify.Plan) error {
	pods, err := o.kube.restarter(ctx)
	if err != nil {
		return err
	}
	plan.Restart(facts)
	r.Restart = pods.restart
	return nil
}

func (o *certifyOptions) carryOut(ctx context.Context, cmd *cobra.Command, r *runner.Runner, creds *pki.Credentials, facts *certify.Facts, plan *certify.Plan, left []*adminpb.Volume) error {
	report, err := r.Run(ctx, facts, plan, left)
	if err != nil {
		return callError("certify the cluster", err)
	}
	sealed, err := certify.Seal(report, creds.Sign)
	if err == nil {
		err = durablefile.Write(o.out, sealed, 0o644)
	}
	if err != nil {
		return exit.Wrap(exit.Refused, fmt.Errorf("write the report: %w", err))
	}
	if o.output != "json" && o.output != "yaml" {
		fmt.Fprintf(cmd.OutOrStdout(), "%sthe signed report is in %s\n", report.Summary(), o.out)
	}
	return refusedUnless(report.Result == certify.Passed)
}

// printPlan shows the plan; JSON is YAML too.
func (o *certifyOptions) printPlan(w io.Writer, p *certify.Plan) error {
	if o.output == "json" || o.output == "yaml" {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(p)
	}
	_, err := fmt.Fprint(w, p.Text())
	return err
}

func certifyVerifyCommand() *cobra.Command {
	c := &connection{}
	cmd := &cobra.Command{Use: "verify FILE", Short: "Check who signed a report, and that nobody altered it", Args: exactArgs("a report's file"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.verifyReport(cmd, args[0]) }}
	cmd.Long = "Checks a report of `holdfast certify` against the cluster's CA, which --ca names, or --dir or --kube find: that an admin of the\n" +
		"cluster signed it while the certificate was valid, and that nothing in it was altered since. The time is the signer's word, and\n" +
		"a revocation is not known here. Then it says what the report says. Exit code 1: it is not to be believed, or it says that\n" +
		"something did not hold."
	c.addFlags(cmd, readTimeout)
	return cmd
}

func (c *connection) verifyReport(cmd *cobra.Command, path string) error {
	if err := admin.CheckFormat(c.output); err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return exit.Usagef("read the report: %w", err)
	}
	ca := c.files.CA
	if ca == "" {
		_, files, err := c.resolve(cmd.Context())
		if err != nil {
			return err
		}
		ca = files.CA
	}
	trust, err := pki.ReadTrust(ca)
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	report, by, err := certify.Open(content, trust)
	if err != nil {
		return exit.Refusedf("report %s is not to be believed: %w", path, err)
	}
	if err := c.printReport(cmd.OutOrStdout(), report, &by); err != nil {
		return err
	}
	return refusedUnless(report.Result == certify.Passed)
}

func (c *connection) printReport(w io.Writer, report *certify.Report, by *pki.Certificate) error {
	if c.output == "json" || c.output == "yaml" {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(report)
	}
	_, err := fmt.Fprintf(w, "%ssigned on %s by %s, certificate %s: the signature is good\n", report.Summary(), report.Ended.Format("2006-01-02T15:04:05Z07:00"), by.Actor(), by.Serial)
	return err
}
