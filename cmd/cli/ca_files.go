package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// fileVerb is a verb that changes files of a CA: it shows its plan, and carries it out with --yes.
type fileVerb struct {
	caDir    string
	folders  []string
	validity time.Duration
	yes      bool
}

func (v *fileVerb) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&v.caDir, "ca-dir", "", "`folder` that `holdfast ca make` made")
	cmd.Flags().StringArrayVar(&v.folders, "folder", nil, "`folder` of certificates that `holdfast ca issue` made; may be given several times")
	cmd.Flags().DurationVar(&v.validity, "validity", 90*24*time.Hour, "how long a certificate that is issued again is good")
	cmd.Flags().BoolVar(&v.yes, "yes", false, "carry the plan out; without it, it is only shown")
}

// run shows the plan, or carries it out. What is wrong with the files is a refusal.
func (v *fileVerb) run(cmd *cobra.Command, plan func() (*pki.FilePlan, error)) error {
	if v.caDir == "" {
		return exit.Usagef("name the CA's folder with --ca-dir")
	}
	p, err := plan()
	if of := (*exit.Error)(nil); errors.As(err, &of) {
		return err
	}
	if err != nil {
		return exit.Wrap(exit.Refused, err)
	}
	todo := p.Todo()
	if v.yes {
		err = p.CarryOut()
	}
	if printErr := printFilePlan(cmd, p); printErr != nil {
		return printErr
	}
	switch {
	case err != nil:
		return exit.Wrap(exit.Refused, err)
	case todo == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing is left to do; "+p.Next)
	case !v.yes:
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed: the same command with --yes carries this out")
	default:
		fmt.Fprintln(cmd.ErrOrStderr(), p.Next)
	}
	return nil
}

func printFilePlan(cmd *cobra.Command, p *pki.FilePlan) error {
	out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "STATE\tACTION\tFILE\tDETAIL")
	for i := range p.Steps {
		s := &p.Steps[i]
		state := "todo"
		if s.Done() {
			state = "done"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", state, s.Action, s.Subject, s.Detail)
	}
	return out.Flush()
}

func caRenewCommand() *cobra.Command {
	v := &fileVerb{}
	var within time.Duration
	cmd := &cobra.Command{Use: "renew", Short: "Issue the certificates in folders again that expire soon", Args: noArgs,
		Long: "Issues again, with a new key, every certificate in the folders that expires within a time. It shows its plan, and carries\n" +
			"it out with --yes. A folder can be loaded at every moment, so that the command may be repeated after any interruption.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(v.folders) == 0 {
				return exit.Usagef("renew certificates: name their folders with --folder")
			}
			return v.run(cmd, func() (*pki.FilePlan, error) { return pki.PlanRenew(v.caDir, v.folders, within, v.validity) })
		}}
	v.addFlags(cmd)
	cmd.Flags().DurationVar(&within, "within", 30*24*time.Hour, "renew what expires within this time")
	return cmd
}

func caRotateCommand() *cobra.Command {
	v, c := &fileVerb{}, &connection{}
	var change, finish, unasked bool
	cmd := &cobra.Command{Use: "rotate", Short: "Replace the CA in three stages, without a restart", Args: noArgs,
		Long: "Replaces a cluster's CA. The first stage makes a new CA beside the old one, and has bundles name both; when every host\n" +
			"and operator has its bundle, --switch has the new CA sign and issues the certificates in the folders again; when none of the\n" +
			"old ones is in use any more, --finish drops the old CA from the bundles. Each stage shows its plan, and carries it out with\n" +
			"--yes; each may be repeated after any interruption. --finish asks the cluster, which --dir, --endpoints or --kube names,\n" +
			"whether a certificate of the old CA is in use, and is refused then: who has one would be cut off.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case change && finish:
				return exit.Usagef("rotate the CA: --switch and --finish are two stages: choose one")
			case change:
				return v.run(cmd, func() (*pki.FilePlan, error) { return pki.PlanSwitch(v.caDir, v.folders, v.validity) })
			case finish:
				return v.run(cmd, func() (*pki.FilePlan, error) { return v.planFinish(cmd.Context(), c, unasked) })
			}
			return v.run(cmd, func() (*pki.FilePlan, error) { return pki.PlanRotate(v.caDir, v.folders) })
		}}
	v.addFlags(cmd)
	cmd.Flags().BoolVar(&change, "switch", false, "the second stage: the new CA signs, and the certificates in the folders are issued again")
	cmd.Flags().BoolVar(&finish, "finish", false, "the last stage: the bundles name the new CA only")
	cmd.Flags().BoolVar(&unasked, "even-if-in-use", false, "with --finish: do not ask the cluster; who has a certificate of the old CA is cut off")
	c.addFlags(cmd, readTimeout)
	return cmd
}

// planFinish plans the last stage. It is carried out only where a cluster says that no certificate of the old CA is in use there, or
// unasked.
func (v *fileVerb) planFinish(ctx context.Context, c *connection, unasked bool) (*pki.FilePlan, error) {
	p, err := pki.PlanFinish(v.caDir, v.folders)
	if err != nil || unasked {
		return p, err
	}
	if c.dir == "" && len(c.endpoints) == 0 && !c.kube.wanted() {
		if v.yes && p.Todo() > 0 {
			err = exit.Usagef("nothing was changed: name the cluster with --dir, --endpoints or --kube: it is asked whether a certificate of the old CA is in use; or, where nobody can be asked, --even-if-in-use")
		}
		return p, err
	}
	issuer, err := pki.IssuerID(v.caDir)
	if err != nil {
		return nil, err
	}
	client, err := c.client(ctx)
	if err != nil {
		return nil, err
	}
	var seen *adminpb.CertificatesResponse
	err = client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) (err error) {
		seen, err = api.Certificates(ctx, &adminpb.CertificatesRequest{})
		return err
	})
	if err != nil {
		return nil, callError("ask which certificates are in use", err)
	}
	return p, checkIssuer(seen, issuer)
}

// checkIssuer is nil when all certificates that are in use were signed by one CA, and every controller was asked.
func checkIssuer(seen *adminpb.CertificatesResponse, issuer string) error {
	for _, u := range seen.GetUnknown() {
		return exit.Unavailablef("drop the old CA: a controller was not asked for the certificates that it sees: %s", u)
	}
	for _, c := range seen.GetCertificates() {
		if c.GetIssuer() != issuer {
			return exit.Refusedf("drop the old CA: certificate %s of %s/%s is another CA's, and in use at %s", c.GetSerial(), c.GetRole(), c.GetName(), strings.Join(c.GetSeenBy(), ", "))
		}
	}
	return nil
}
