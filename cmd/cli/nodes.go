package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// nodeVerb makes a command for a verb with a plan about one node.
func nodeVerb(verb, short, long string) (*cobra.Command, *planVerb) {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: verb}}
	cmd := apiCommand(verb+" NODE", short, exactArgs("a node's id"), changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			p.req.Node = args[0]
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = long
	return cmd, p
}

func drainCommand() *cobra.Command {
	cmd, p := nodeVerb("drain", "Give a host nothing new, and say what must move away",
		"Cordons a host: it gets no new volumes and no new replicas. Then it shows what is published there; the orchestrator\n"+
			"moves it, for example by draining its node there. No data move, and no publication is ended. --wait shows how much is\n"+
			"still published and staged, and of how many volumes the last copy is there: these cannot be used while the host is\n"+
			"away. `holdfast nodes undrain` ends it, and the wait.")
	p.planFlags(cmd)
	p.waitFlag(cmd)
	return cmd
}

func undrainCommand() *cobra.Command {
	cmd, p := nodeVerb("undrain", "Give a host new volumes and replicas again",
		"Ends what drain or evict began, and the host's maintenance. What was moved away stays where it is.")
	p.planFlags(cmd)
	return cmd
}

// adoptCommand ends a host's adoption mode.
func adoptCommand() *cobra.Command {
	cmd, p := nodeVerb("adopt", "End a host's adoption mode",
		"Lets a host that met another incarnation of the cluster (after a restore, say) act for this one. Look at\n"+
			"`holdfast audit` first: from then on the host does what this log says.")
	p.planFlags(cmd)
	return cmd
}

func evictCommand() *cobra.Command {
	cmd, p := nodeVerb("evict", "Give a host nothing new, and move replicas of replicated volumes away",
		"Drains a host and moves the replicas of replicated volumes to other hosts: where the other replica is up to date,\n"+
			"this one is given up and a new one is made elsewhere, which is synchronised wholly. DRBD 8.4 holds two replicas, so\n"+
			"until then there is one. Volumes that are published here wait until the orchestrator moved them; volumes with\n"+
			"one replica, and snapshots, cannot move. The same command goes on where it ended; --wait goes on by itself.")
	p.planFlags(cmd)
	p.waitFlag(cmd)
	return cmd
}

func loseCommand() *cobra.Command {
	cmd, p := nodeVerb("lost", "Attest that a host and its data are gone for good",
		"Records in the log that a host and its data are gone for good. Its publications and its obligations end, and its\n"+
			"name is free for another host. Say it only of a host that cannot come back: nothing asks the host.\n"+
			"Without --yes it shows what that means for each volume. A host that a controller reaches is not lost unless\n"+
			"--even-if-reachable says so.")
	p.lostFlags(cmd)
	return cmd
}

func replaceCommand() *cobra.Command {
	cmd, p := nodeVerb("replace", "Attest that a host is gone for good, and replace its replicas",
		"Records in the log that a host and its data are gone for good, because another host takes its name or its work: a\n"+
			"reinstalled host, or one with a new pool. Until then such a host is refused. Then replicated volumes that lost a\n"+
			"replica get another, where there is room; the same command goes on when the new host has registered.")
	p.lostFlags(cmd)
	p.waitFlag(cmd)
	return cmd
}

func forceCommand() *cobra.Command {
	p := &planVerb{req: &adminpb.PlanRequest{Verb: "force-primary"}}
	cmd := apiCommand("force-primary VOLUME NODE", "Decide that a replica goes on although it may lack acknowledged writes",
		p.requireReason, changeTimeout,
		func(ctx context.Context, c *connection, client *admin.Client, cmd *cobra.Command, args []string) error {
			p.req.Volume, p.req.Node = args[0], args[1]
			return p.run(ctx, c, client, cmd)
		})
	cmd.Long = "Records that the replica on a node goes on although the log cannot know that it has every acknowledged write. The\n" +
		"plan says which generation's writes may be lost. It needs the other replica's host to have given its grant back, or\n" +
		"--peer-dead: your word that this host does not run any more. The next publication on the node uses the decision."
	p.planFlags(cmd)
	cmd.Flags().BoolVar(&p.req.PeerDead, "peer-dead", false, "attest that the other replica's host does not run any more, and will not with what it has")
	return cmd
}

// requireReason requires a volume, a node and --reason, which is recorded with the decision.
func (p *planVerb) requireReason(cmd *cobra.Command, args []string) error {
	if err := exactArgs("a volume's id or name", "a node's id")(cmd, args); err != nil {
		return err
	}
	if p.req.GetReason() == "" {
		return exit.Usagef("say why with --reason: the history keeps it")
	}
	return nil
}
