package drain

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// volume is a ready volume with replicas on hosts, published to one (empty: none).
func volume(id, published string, replicas ...string) *adminpb.Volume {
	v := &adminpb.Volume{Id: id, Name: "pvc-" + id, Phase: "ready", Claim: &adminpb.Claim{Namespace: "shop", Name: id}}
	for _, n := range replicas {
		v.Replicas = append(v.Replicas, &adminpb.Replica{Node: n})
	}
	if published != "" {
		v.Publications = []*adminpb.Publication{{Node: published}}
	}
	return v
}

func facts(volumes ...*adminpb.Volume) *Facts {
	return &Facts{
		Node: "n1", Volumes: volumes, Risk: &adminpb.AtRiskResponse{Index: 7},
		Nodes:   []*adminpb.Node{{Id: "n1", State: "reachable", Adopted: true, Addresses: []string{"10.0.0.1"}}, {Id: "n2", State: "reachable", Adopted: true}, {Id: "n3", State: "unreachable"}},
		Members: []*adminpb.Member{{Id: "c1", Reachable: true, Stoppable: true, StopReason: "2 of 3 are left", Address: "10.0.0.1:9800"}, {Id: "c2", Reachable: true, Address: "10.0.0.2:9800"}},
	}
}

// inKube adds a Kubernetes in which a pod on the node uses a claim.
func (f *Facts) inKube(claim string) *Facts {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}}
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	f.Kube = &Kube{Pods: []corev1.Pod{pod}, Controllers: map[string]*corev1.Pod{"c1": {Spec: corev1.PodSpec{NodeName: "n1"}}, "c2": {Spec: corev1.PodSpec{NodeName: "n2"}}}}
	return f
}

func at(f *Facts, volume, impact string) *Facts {
	f.Risk.Volumes = append(f.Risk.Volumes, &adminpb.VolumeRisk{Volume: volume, Impact: impact, Reason: "why"})
	return f
}

// replicated is a volume of which the log has what the copies have.
func replicated(v *adminpb.Volume, upToDate ...bool) *adminpb.Volume {
	v.Replication, v.Abnormal, v.Condition = &adminpb.Replication{}, true, "why"
	for i, whole := range upToDate {
		v.Replicas[i].UpToDate = whole
	}
	return v
}

func clone(f *Facts) *Facts { c := *f; return &c }

func but(f *Facts, change func(*Facts)) *Facts {
	change(f)
	return f
}

func TestWhatADrainDoesToAVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		facts *Facts
		state string // empty: nothing is said of it
		says  string
	}{
		"the only copy, in use":                         {at(facts(volume("v", "n1", "n1")), "v", "unavailable").inKube("v"), Waits, "kubectl uncordon n1"},
		"the only copy, without Kubernetes":             {at(facts(volume("v", "n1", "n1")), "v", "unavailable"), Waits, "cannot use it on another host"},
		"the only copy, unused":                         {at(facts(volume("v", "", "n1")), "v", "unavailable"), OK, "nothing uses it on this node"},
		"two copies, in use":                            {facts(volume("v", "n1", "n1", "n2")), OK, "go on on n2"},
		"two copies, the other host is away":            {facts(volume("v", "n1", "n1", "n3")), Waits, "its only copy is here"},
		"two copies, the last good one":                 {at(facts(volume("v", "n1", "n1", "n2")), "v", "lost"), AtRisk, "it would be lost"},
		"two copies, unused, the last good":             {at(facts(volume("v", "", "n1", "n2")), "v", "lost"), AtRisk, "it would be lost"},
		"used elsewhere, and it would freeze":           {at(facts(volume("v", "n2", "n1", "n2")), "v", "frozen"), AtRisk, "it would be frozen"},
		"used elsewhere, degraded":                      {at(facts(volume("v", "n2", "n1", "n2")), "v", "degraded"), OK, "goes on with the copy on n2"},
		"the other cannot take over":                    {at(facts(volume("v", "n1", "n1", "n2")), "v", "unavailable"), Waits, "nobody can use it meanwhile: why"},
		"two copies, the other host is out of service":  {but(facts(volume("v", "n1", "n1", "n2")), func(f *Facts) { f.Nodes[1].OutOfService = 7 }), Waits, "n2 (out of service)"},
		"two copies, the other host is in maintenance":  {but(facts(volume("v", "n1", "n1", "n2")), func(f *Facts) { f.Nodes[1].Maintenance = 7 }), Waits, "n2 (in maintenance)"},
		"two copies, the other host is cordoned":        {but(facts(volume("v", "n1", "n1", "n2")).inKube("v"), func(f *Facts) { f.Kube.Closed = map[string]string{"n2": "cordoned"} }), Waits, "n2 (cordoned)"},
		"two copies, one of nobody knows what":          {facts(replicated(volume("v", "n1", "n1", "n2"), false, false)), AtRisk, "no copy elsewhere is known to have every write: why"},
		"two copies, whole":                             {facts(replicated(volume("v", "n1", "n1", "n2"), true, true)), OK, "go on on n2"},
		"two copies, unused, the one here is the whole": {facts(replicated(volume("v", "", "n1", "n2"), true, false)), AtRisk, "no copy elsewhere"},
		"two copies, the one here is outdated":          {facts(replicated(volume("v", "n2", "n1", "n2"), false, false)), OK, "goes on with the copy on n2"},
		"a pod that begins, and the only copy":          {facts(volume("v", "", "n1")).inKube("v"), Waits, "kubectl uncordon n1"},
		"a list of risks that was cut short":            {but(at(facts(volume("v", "n1", "n1", "n2")), "w", "degraded"), func(f *Facts) { f.Risk.More = 1 }), AtRisk, "not known"},
		"a list of snapshots that was":                  {but(at(facts(volume("v", "n1", "n1", "n2")), "w", "degraded"), func(f *Facts) { f.Risk.More, f.Risk.Snapshots = 1, make([]*adminpb.SnapshotRisk, 2) }), OK, "go on on n2"},
		"another host's":                                {facts(volume("v", "n2", "n2")), "", ""},
		"one that is being made":                        {facts(&adminpb.Volume{Id: "v", Phase: "creating", Replicas: []*adminpb.Replica{{Node: "n1"}}}), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Members = nil
			resp := Plan(tc.facts)
			require.Equal(t, tc.state == OK || tc.state == "", resp.GetHarmless())
			for _, found := range resp.GetFindings() {
				if found.GetKind() == "volume" {
					require.Equal(t, tc.state, found.GetState())
					require.Contains(t, found.GetText(), tc.says)
					require.Equal(t, tc.state != OK, found.GetRemedy() != "")
					return
				}
			}
			require.Empty(t, tc.state)
		})
	}
}

func TestThePodsThatWaitAreNamed(t *testing.T) {
	f := facts(volume("v", "n1", "n1"), volume("w", "", "n1")).inKube("v")
	yes := true
	stays := f.Kube.Pods[0]
	stays.Name, stays.OwnerReferences = "agent", []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &yes}}
	guard := f.Kube.Pods[0]
	guard.Name, guard.Labels = "holdfast-drain-n1", map[string]string{plan.LabelDrainGuard: "1"}
	ended := f.Kube.Pods[0]
	ended.Name, ended.Status.Phase = "job", corev1.PodSucceeded
	f.Kube.Pods = append(f.Kube.Pods, stays, guard, ended)
	worst := Plan(f).GetFindings()[0]
	require.Equal(t, "shop/v", worst.GetName())
	require.Len(t, worst.GetPods(), 2)
	require.Equal(t, "shop/db-0", worst.GetPods()[0])
	require.Contains(t, worst.GetPods()[1], "shop/agent (a DaemonSet's")
}

func TestWhatADrainMeetsBesideVolumes(t *testing.T) {
	standing := func(f *Facts, phase corev1.PodPhase) *Facts {
		guard := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "holdfast-drain-n1", Labels: map[string]string{plan.LabelDrainGuard: "1"}}}
		guard.Status.Phase = phase
		f.Kube.Pods = append(f.Kube.Pods, guard)
		return f
	}
	guarded := func(f *Facts) *Facts {
		f.Kube.Budget = &policyv1.PodDisruptionBudget{}
		return standing(f, corev1.PodRunning)
	}
	starting := func(f *Facts) *Facts {
		f.Kube.Budget = &policyv1.PodDisruptionBudget{}
		return standing(f, corev1.PodPending)
	}
	stops := func(f *Facts) *Facts { f.Nodes[0].StopReasons = []string{"volume v would be lost"}; return f }
	stuck := func(f *Facts) *Facts {
		f.Members[0].Stoppable, f.Members[0].StopReason = false, "no quorum is left"
		return f
	}
	for name, tc := range map[string]struct {
		facts       *Facts
		kind, state string
		says        string
	}{
		"a controller that may stop":         {facts(), "controller", OK, "2 of 3 are left"},
		"one that must not":                  {stuck(facts()), "controller", AtRisk, "no quorum is left"},
		"one by its pod":                     {stuck(facts().inKube("")), "controller", AtRisk, "no quorum is left"},
		"the guard of a controller":          {guarded(stuck(facts().inKube(""))), "guard", AtRisk, "keeps `kubectl drain` from ending: controller c1"},
		"an open guard":                      {facts().inKube(""), "guard", OK, "lets the drain end"},
		"a closed guard":                     {guarded(stops(facts().inKube(""))), "guard", AtRisk, "volume v would be lost"},
		"a guard that stands open":           {standing(facts().inKube(""), corev1.PodRunning), "guard", OK, "lets the drain end"},
		"a closed guard that starts":         {starting(stops(facts().inKube(""))), "guard", AtRisk, "does not run, so that a drain passes"},
		"one of a host that is away":         {func() *Facts { f := guarded(facts().inKube("")); f.Nodes[0].State = "unreachable"; return f }(), "guard", AtRisk, "as it did when the host was heard of"},
		"one of a host that is not adopted":  {func() *Facts { f := guarded(facts().inKube("")); f.Nodes[0].Adopted = false; return f }(), "guard", AtRisk, "as it did when the host was heard of"},
		"a host that is not adopted":         {func() *Facts { f := facts(); f.Nodes[0].Adopted = false; return f }(), "node", AtRisk, "not adopted"},
		"a guard that is not there yet":      {stops(facts().inKube("")), "guard", AtRisk, "no guard keeps it"},
		"a guard that stands without reason": {guarded(facts().inKube("")), "guard", Waits, "still stands"},
		"a node that only Kubernetes has":    {but(stuck(facts().inKube("")), func(f *Facts) { f.Nodes = nil }), "controller", AtRisk, "no quorum is left"},
		"one where nothing runs":             {but(facts().inKube(""), func(f *Facts) { f.Nodes = nil }), "node", OK, "the log has no host of this name"},
		"one where a host runs":              {but(facts().inKube(""), func(f *Facts) { f.Nodes, f.Kube.Host = nil, "h1" }), "node", AtRisk, "the host h1 of Holdfast"},
		"a host that is away":                {func() *Facts { f := facts(); f.Nodes[0].State = "unreachable"; return f }(), "node", AtRisk, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := Plan(tc.facts)
			require.Equal(t, tc.state == OK, resp.GetHarmless())
			for _, found := range resp.GetFindings() {
				if found.GetKind() == tc.kind {
					require.Equal(t, tc.state, found.GetState())
					require.Contains(t, found.GetText(), tc.says)
					return
				}
			}
			t.Fatalf("nothing is said of a %s: %v", tc.kind, resp)
		})
	}
}

func TestAControllerOfAnotherHostIsNotMeant(t *testing.T) {
	f := facts()
	f.Members = f.Members[1:]
	f.Members = append(f.Members, &adminpb.Member{Id: "c3", Address: "127.0.0.1:9800"}, &adminpb.Member{Id: "c4", Address: "c4.example:9800", Stoppable: true})
	f.Nodes[0].Addresses = append(f.Nodes[0].Addresses, "127.0.0.1")
	require.Empty(t, Plan(f).GetFindings())
	require.True(t, Plan(f).GetHarmless())
}

// TestAControllerThatMayBeThere: the addresses of pods are names, which say nothing of the host without Kubernetes.
func TestAControllerThatMayBeThere(t *testing.T) {
	f := facts()
	f.Members = []*adminpb.Member{{Id: "holdfast-controller-0", Address: "holdfast-controller-0.holdfast-controller.holdfast.svc:9800", Reachable: true, StopReason: "no quorum"}}
	for _, f := range []*Facts{f, but(clone(f), func(f *Facts) { f.inKube("") })} {
		one := Plan(f).GetFindings()[0]
		require.False(t, Plan(f).GetHarmless())
		require.Equal(t, "controller", one.GetKind())
		require.Contains(t, one.GetText(), "whether the controller runs here is not known")
	}
	f.inKube("").Kube.Controllers["holdfast-controller-0"] = &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n2"}}
	require.True(t, Plan(f).GetHarmless(), "it runs elsewhere")
}

// TestControllersThatStopTogether: each of them alone may.
func TestControllersThatStopTogether(t *testing.T) {
	of := func(nodes ...string) *Facts {
		f := facts().inKube("")
		f.Members = nil
		for i, node := range nodes {
			id := string(rune('a' + i))
			f.Members = append(f.Members, &adminpb.Member{Id: id, Reachable: true, Stoppable: true, Voter: true})
			f.Kube.Controllers[id] = &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
		}
		return f
	}
	for range 2 {
		require.True(t, Plan(of("n1", "n2", "n3")).GetHarmless())
		require.True(t, Plan(of("n1", "n1", "n2", "n3", "n4")).GetHarmless(), "three of five are left")
		resp := Plan(of("n1", "n1", "n2"))
		require.False(t, resp.GetHarmless())
		require.Contains(t, resp.GetFindings()[0].GetText(), "the controllers a and b run here, and without all of them 1 of 3 are left")
		f := of("n1", "n1", "n2", "n3", "n4")
		f.Members[4].Trouble = "its disk is full"
		require.False(t, Plan(f).GetHarmless())
	}
}

func TestCollectReadsTheNodesPodsAndItsGuard(t *testing.T) {
	label := func(uid string) map[string]string { return map[string]string{plan.LabelDrainGuard: uid} }
	api := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{Unschedulable: true}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "c1", Labels: map[string]string{"part": "controller"}}, Spec: corev1.PodSpec{NodeName: "n1"}},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "other", NodeID: "x"}, {Name: plan.Driver, NodeID: "h1"}}}},
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "other", NodeID: "x"}}}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "a", Labels: label("u1")}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: "b", Labels: label("u2")}},
	)
	for range 2 {
		k, err := Collect(t.Context(), api, "n1", "", "part=controller")
		require.NoError(t, err)
		require.Equal(t, "a", k.Budget.Name)
		require.Contains(t, k.Controllers, "c1")
		require.Equal(t, map[string]string{"n1": "its kubelet is not ready", "n2": "cordoned"}, k.Closed)
		require.Equal(t, "h1", k.Host)
		for _, without := range []string{"n2", "n3"} {
			k, err = Collect(t.Context(), api, without, "", "part=controller")
			require.NoError(t, err)
			require.Empty(t, k.Host)
		}
		_, err = Collect(t.Context(), api, "n9", "", "part=controller")
		require.ErrorContains(t, err, "read node n9")
	}
}

// TestCollectDoesNotMixClusters: the pods of two have the same names.
func TestCollectDoesNotMixClusters(t *testing.T) {
	api := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	for _, namespace := range []string{"a", "b"} {
		_, err := api.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"part": "controller"}}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for range 2 {
		_, err := Collect(t.Context(), api, "n1", "", "part=controller")
		require.ErrorContains(t, err, "--holdfast-namespace")
		_, err = Collect(t.Context(), api, "n1", "b", "part=controller")
		require.NoError(t, err)
	}
}
