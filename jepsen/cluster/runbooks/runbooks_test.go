package runbooks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const page = "../../../deploy/RUNBOOKS.md"

// drill is what a runbook is for: it brings the trouble about, follows the runbook, and looks whether it is over.
type drill struct {
	title string
	play  func(*operations, *shell)
}

// drills are in the order in which they share one cluster: what a later one needs is there after the earlier ones.
var drills = []drill{
	{title: "Something is wrong, and it is not known what", play: (*operations).unknownTrouble},
	{title: "The disk of a controller is full", play: (*operations).fullDisk},
	{title: "A controller is dead for good", play: (*operations).deadController},
	{title: "A host must be rebooted", play: (*operations).reboot},
	{title: "An operation does not end", play: (*operations).endlessOperation},
	{title: "A wrong volume was deleted", play: (*operations).wrongDeletion},
	{title: "A pool is nearly full", play: (*operations).fullPool},
	{title: "A host is taken out of service", play: (*operations).evictedHost},
	{title: "A host died for good", play: (*operations).deadHost},
	{title: "A certificate has expired, or soon will", play: (*operations).expiredCertificate},
	{title: "The CA expires, or its key may be known to others", play: (*operations).newCA},
	{title: "A key was stolen, or somebody left", play: (*operations).stolenKey},
	{title: "The quorum is lost for good", play: (*operations).lostQuorum},
	{title: "All controllers are lost", play: (*operations).lostControllers},
	{title: "A bug is to be reported", play: (*operations).bugReport},
}

// operations are one cluster for all drills: three controllers and four hosts, n3 with a pool on a small disk.
type operations struct {
	*harness.Cluster
	t       *testing.T // of the drill
	binary  string
	co      *harness.CO
	backups string
	pool    *harness.Disk   // of n3
	disks   []*harness.Disk // that are mounted

	newer, earlier string // builds that a drill installs
}

// TestRunbooks follows every runbook to the letter.
func TestRunbooks(t *testing.T) {
	books := readPage(t)
	o := startOperations(t)
	for _, d := range drills {
		if !t.Run(d.title, func(t *testing.T) { o.follow(t, d, books[d.title]) }) {
			return // the next one needs what this one leaves
		}
	}
}

// onKubernetes is the section of what stands for a host's commands in Kubernetes: docs/pagetest holds them against their programs.
const onKubernetes = "On Kubernetes"

// TestEveryRunbookHasADrill: the page and the drills have the same titles.
func TestEveryRunbookHasADrill(t *testing.T) {
	books := readPage(t)
	require.Contains(t, books, onKubernetes)
	require.Empty(t, books[onKubernetes].Blocks, "no test would run them")
	delete(books, onKubernetes)
	for _, d := range slices.Concat(drills, ownDrills) {
		require.NotEmpty(t, books[d.title].Blocks, "the page has no section %q with commands", d.title)
		delete(books, d.title)
	}
	require.Empty(t, books, "sections that no test follows")
}

func readPage(t *testing.T) map[string]Runbook {
	t.Helper()
	read, err := Read(page)
	require.NoError(t, err)
	books := map[string]Runbook{}
	for _, b := range read {
		require.NotContains(t, books, b.Title)
		books[b.Title] = b
	}
	return books
}

func (o *operations) follow(t *testing.T, d drill, book Runbook) {
	o.t = t
	s := newShell(t, o.Cluster, o.binary, book)
	d.play(o, s)
	s.done()
	require.NoError(t, o.AwaitAgreement(t.Context()))
}

func startOperations(t *testing.T) *operations {
	t.Helper()
	o := &operations{t: t, binary: testBinary(t), backups: t.TempDir()}
	var err error
	o.Cluster, err = harness.Prepare(harness.Options{Binary: o.binary, Nodes: 4, Flags: []string{
		"--controller-arg=--backup-to=" + o.backups, "--controller-arg=--backup-increments=1s"}})
	require.NoError(t, err)
	clean(t, o.Cluster)
	t.Cleanup(func() { // what is mounted in the cluster's folder goes before the folder
		require.NoError(t, o.Stop(context.Background()))
		for _, disk := range o.disks {
			require.NoError(t, disk.Remove(context.Background()))
		}
	})
	pool := filepath.Join(o.Dir, "nodes", "n3", "pool")
	require.NoError(t, os.MkdirAll(filepath.Dir(pool), 0o700))
	o.pool, err = harness.MakeDisk(t.Context(), filepath.Join(o.Base, "n3.disk"), pool, 3<<30)
	require.NoError(t, err)
	o.disks = append(o.disks, o.pool)
	require.NoError(t, o.Resume(t.Context()))
	o.co = o.NewCO()
	return o
}
