package verbs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drill says by which test a command is killed at its steps, as a name of this package or as FOLDER.NAME of another one of the
// repository; or why by none.
type drill struct{ by, why string }

const (
	byState     = "TestS17_S71_StateVerbsGoOnWhereTheyWereKilled"
	byVolumes   = "TestS71_VolumeVerbsGoOnWhereTheyWereKilled"
	byRestored  = "TestS1_S72_VerbsAfterARestoreGoOnWhereTheyWereKilled"
	byCA        = "TestCAVerbsGoOnWhereTheyWereKilled"
	byFiles     = "TestS24_BackupVerbsGoOnWhereTheyWereKilled"
	byEnrolment = "TestAnEnrolmentGoesOnWhereItWasKilled"
	// byPlans needs no hosts with device mapper and DRBD: the verb is killed at each command that it has the log take.
	byPlans = "admin.TestS71_PlansGoOnWhereTheirCallerWasKilled"
	// byOrphans needs an API server, and has the call end at each volume.
	byOrphans = "cmd/cli.TestS71_OrphansGoOnWhereTheyWereInterrupted"
	byCertify = "TestS71_CertifyRemovesWhatAKilledRunLeft"
)

// drills are the commands that change something.
var drills = map[string]drill{
	"adopt": {by: byRestored}, "upgrade finish": {by: byRestored},
	"backup": {by: byFiles}, "bundle": {by: byFiles}, "restore": {by: byFiles}, "recover": {by: byFiles},
	"ca make": {by: byCA}, "ca issue": {by: byCA}, "ca renew": {by: byCA}, "ca rotate": {by: byCA},
	"certify":      {by: byCertify},
	"certs revoke": {by: byState}, "certs unrevoke": {by: byState},
	"controller": {by: byEnrolment}, "node": {by: byEnrolment},
	"import lv": {by: byPlans}, "import drbd": {by: byPlans}, "import forget": {by: byPlans},
	"members add": {by: byState}, "members demote": {by: byState}, "members promote": {by: byState}, "members remove": {by: byState},
	"members replace": {by: byState}, "members transfer": {by: byState},
	"mount": {by: byVolumes}, "umount": {by: byVolumes}, "mounts release": {by: byVolumes},
	"nodes adopt": {by: byPlans}, "nodes drain": {by: byState}, "nodes undrain": {by: byState}, "nodes evict": {by: byState},
	"nodes lost": {by: byState}, "nodes replace": {by: byPlans}, "nodes reboot-safe": {by: byState},
	"nodes fence": {by: byVolumes}, "nodes unfence": {by: byVolumes},
	"operations cancel": {by: byVolumes}, "operations retry": {by: byVolumes},
	"tokens create": {by: byVolumes}, "tokens revoke": {by: byVolumes},
	"volumes create": {by: byVolumes}, "volumes delete": {by: byVolumes}, "volumes expand": {by: byVolumes},
	"volumes orphans": {by: byOrphans}, "volumes publish": {by: byVolumes}, "volumes unpublish": {by: byVolumes},
	"volumes enable-replication": {by: byPlans}, "volumes disable-replication": {by: byPlans}, "volumes promote": {by: byPlans},
	"volumes demote": {by: byPlans}, "volumes resync": {by: byPlans}, "volumes force-primary": {by: byPlans},
	"volumes kept remove": {by: byPlans}, "volumes restore-header": {by: byPlans},
	"groups enable-replication": {by: byPlans}, "groups disable-replication": {by: byPlans}, "groups promote": {by: byPlans},
	"groups demote": {by: byPlans}, "groups resync": {by: byPlans},

	"kube-init": {by: "kube/bootstrap.TestS167_KilledBetweenAnyTwoSteps"},

	"nodes out-of-service": {why: "its return is one command, under the index that it ends, and is refused under any other"},
	"kube":                 {why: "it is killed between any two of its steps in the tests of kube/loop"},
	"log skip":             {why: "it needs a log with an entry that no build takes; it writes one file at once, and is said twice in the test that has such a log"},
	"mounts grow":          {why: "it is one call of the node, whose host grows a filesystem as far as it is not grown yet"},
	"thaw":                 {why: "the system calls it, and again until the filesystem is thawed"},
	"end-filesystem":       {why: "the system calls it, for a filesystem that is given up"},
	"install-handler":      {why: "it renames a copy into place once that has answered its version, and again at each start of a pod"},
	"certify-blocks write": {why: "it writes one new file of a scratch volume, and refuses one that is there; its pod is killed in the story of certify --write"},
	"fence-peer":           {why: "the kernel calls it, and takes it as no when it dies"},
	"dev":                  {why: "its process is killed by the tests of whole clusters, which start it again"},
	"dev start":            {why: "it is one message to the process of the cluster"},
	"dev clean":            {why: "it removes what is there, which may be less than all"},
}

// readers change nothing.
var readers = strings.Split("audit,backup list,backup verify,ca,certify verify,certify-blocks,certify-blocks read,certs,certs list,completion,completion bash,completion fish,completion powershell,completion zsh,"+
	"doctor,groups,groups list,groups replication,history,history verify,import,kube guard,log,log inspect,members,members list,mounts,mounts list,"+
	"nodes,nodes drain-plan,nodes fences,nodes list,operations,operations list,operations show,snapshots,snapshots groups,snapshots list,state,status,"+
	"tokens,tokens list,upgrade,upgrade status,version,volumes,volumes at-risk,volumes kept,volumes kept list,volumes leaks,volumes list,volumes manifest,"+
	"volumes replicas,volumes replication,volumes tolerance,why", ",")

const repository = "../../.."

// TestEveryVerbThatChangesSomethingIsKilled goes through all commands, as the page that is made of them lists them: each is drilled, or it
// is said why it is not, or it changes nothing; and the tests that are named are there.
func TestEveryVerbThatChangesSomethingIsKilled(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "deploy", "COMMANDS.md"))
	require.NoError(t, err)
	commands := map[string]bool{}
	for _, part := range strings.Split(string(page), "\n## holdfast ")[1:] {
		verb := regexp.MustCompile(`^[a-z-]+( [a-z-]+)*`).FindString(strings.SplitN(part, "\n", 2)[0])
		commands[verb] = true
		d, listed := drills[verb]
		require.True(t, listed != slices.Contains(readers, verb), "holdfast %s: give it a drill, or a reason why not, or list it with what changes nothing", verb)
		if strings.Contains(part, "| `--yes` |") {
			require.True(t, listed && d.why == "", "holdfast %s has a plan, and so a drill", verb)
		}
	}
	require.Greater(t, len(commands), 80)
	for _, verb := range readers {
		require.True(t, commands[verb], "there is no holdfast %s any more", verb)
	}
	for verb, d := range drills {
		require.True(t, commands[verb], "there is no holdfast %s any more", verb)
		require.NotEqual(t, d.by == "", d.why == "", verb)
		if d.by != "" {
			require.True(t, testExists(t, d.by), "holdfast %s: there is no test %s", verb, d.by)
		}
	}
}

func testExists(t *testing.T, name string) bool {
	t.Helper()
	folder, test, elsewhere := strings.Cut(name, ".")
	if !elsewhere {
		folder, test = "jepsen/cluster/verbs", name
	}
	files, err := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.Contains(string(text), "func "+test+"(")
	})
}

// drilling are the verbs that a running test has killed.
var drilling = map[string]map[string]bool{}

// drilled notes that a test kills a verb, whose row must name the test. When the test ends well it has killed all that name it.
func drilled(t *testing.T, args []string) {
	t.Helper()
	verb := ""
	for n := range args {
		if v := strings.Join(args[:n+1], " "); drills[v].by != "" {
			verb = v
		}
	}
	require.Equal(t, t.Name(), drills[verb].by, "the row of holdfast %v names another test", args)
	if drilling[t.Name()] == nil {
		drilling[t.Name()] = map[string]bool{}
		t.Cleanup(func() { requireAllDrilled(t) })
	}
	drilling[t.Name()][verb] = true
}

func requireAllDrilled(t *testing.T) {
	killed := drilling[t.Name()]
	delete(drilling, t.Name())
	if t.Failed() || t.Skipped() {
		return
	}
	for verb, d := range drills {
		require.True(t, d.by != t.Name() || killed[verb], "%s does not kill holdfast %s", t.Name(), verb)
	}
}
