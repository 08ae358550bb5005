package addons

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var (
	groupClass   = kubeapi.Ref{Resource: "volumegroupreplicationclasses", Name: "groups"}
	groupOwner   = kubeapi.Ref{Resource: "volumegroupreplications", Namespace: "shop", Name: "shop"}
	groupContent = kubeapi.Ref{Resource: "volumegroupreplicationcontents", Name: "vgrcontent-1"}
)

// testGroups: ADD-VG-Create-08, -10, ADD-VG-Modify-01 and ADD-VG-Delete-01 as the controller of VolumeGroupReplicationContent calls them: it makes
// a group of the volumes, gives it the whole set at each change, and in the end empties and deletes it. The owner is one that the
// manager leaves alone: it would enable replication.
func (k *kubernetes) testGroups(t *testing.T) {
	a, b := k.volume(t, harness.Spec{Name: "a"}), k.volume(t, harness.Spec{Name: "b"})
	k.makeGroup(t, a, b)
	made := k.await(t, groupContent, "the group to be made", func(o object) bool { return o.Text("spec", "volumeGroupReplicationHandle") != "" })
	require.Regexp(t, `^hg-`, made.Text("spec", "volumeGroupReplicationHandle"))
	k.awaitGroup(t, a, b)
	k.setGroup(t, []any{b.ID})
	k.awaitGroup(t, b)
	k.setGroup(t, []any{})
	k.awaitGroup(t)
	k.setGroup(t, []any{a.ID, b.ID})
	k.awaitGroup(t, a, b)

	require.NoError(t, k.api.Delete(groupOwner))
	require.NoError(t, k.api.Delete(groupContent))
	k.awaitNoContent(t)
	require.NotContains(t, k.groups(t), groupContent.Name)
	require.NoError(t, k.api.Update(groupOwner, func(o object) { delete(o.Meta(), "finalizers") }))
	for _, v := range []*harness.Volume{a, b} { // the group was empty when it was deleted: they are there
		listed, err := k.co.List(t.Context())
		require.NoError(t, err)
		require.Contains(t, listed, v.ID)
		require.NoError(t, k.co.Delete(t.Context(), v))
	}
}

// awaitNoContent waits until the manager has deleted the group. It does not look again by itself where it saw the content's deletion
// before that of the owner, so the content is touched now and then: seldom, as each touch makes an update of the manager's a conflict.
func (k *kubernetes) awaitNoContent(t *testing.T) {
	t.Helper()
	polls := 0
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the group to be deleted", func() (bool, error) {
		if polls++; polls%100 != 0 {
			_, err := k.api.Get(groupContent)
			return err != nil, nil
		}
		touched := k.api.Update(groupContent, func(o object) { o.Meta()["annotations"] = fields{"tests/polls": fmt.Sprint(polls)} })
		return touched != nil, nil
	}))
}

func (k *kubernetes) makeGroup(t *testing.T, volumes ...*harness.Volume) {
	t.Helper()
	secret := "replication.storage.openshift.io/group-replication-secret-"
	k.create(t, groupClass, object{"spec": fields{"provisioner": driver, "parameters": fields{
		secret + "name": "holdfast", secret + "namespace": namespace, "site": "default"}}})
	k.create(t, groupOwner, object{"metadata": fields{"finalizers": []any{"tests/content-first"}}, "spec": fields{"external": true}})
	k.create(t, groupContent, object{"spec": fields{"provisioner": driver, "volumeGroupReplicationClassName": groupClass.Name,
		"volumeGroupReplicationHandle": "", "source": fields{"volumeHandles": handles(volumes)},
		"volumeGroupReplicationRef": fields{"namespace": groupOwner.Namespace, "name": groupOwner.Name}}})
}

func handles(volumes []*harness.Volume) (all []any) {
	for _, v := range volumes {
		all = append(all, v.ID)
	}
	return all
}

// setGroup has the manager give the group exactly these volumes.
func (k *kubernetes) setGroup(t *testing.T, ids []any) {
	t.Helper()
	require.NoError(t, k.api.Update(groupContent, func(o object) { o.Get("spec", "source").(fields)["volumeHandles"] = ids }))
}

// awaitGroup waits until the group of the cluster has exactly these volumes.
func (k *kubernetes) awaitGroup(t *testing.T, volumes ...*harness.Volume) {
	t.Helper()
	want := []string{}
	for _, v := range volumes {
		want = append(want, v.ID)
	}
	slices.Sort(want)
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the group to be changed", func() (bool, error) {
		got, made := k.groups(t)[groupContent.Name]
		slices.Sort(got)
		return made && slices.Equal(got, want), fmt.Errorf("%v, not %v", k.groups(t), want)
	}))
}

// testToolGroups: each operation of volume groups, also with what it must refuse.
func (k *kubernetes) testToolGroups(t *testing.T) {
	v := k.volume(t, harness.Spec{Name: "c"})
	secret := "-secret=" + namespace + "/holdfast"
	create := []string{secret, "-volumegroupname=tools", "-volumeids=" + v.ID}
	k.requireTool(t, "c1", "CreateVolumeGroup", 0, "Volume Group created", create...)
	again := k.tool(t, "c2", "CreateVolumeGroup", create...)
	require.Zero(t, again.code, again.text)
	id := regexp.MustCompile(`hg-[0-9a-f-]+`).FindString(again.text)
	require.NotEmpty(t, id, again.text)
	of := []string{secret, "-volumegroupid=" + id}
	k.requireTool(t, "c1", "ControllerGetVolumeGroup", 0, v.ID, of...)
	k.requireTool(t, "c1", "ModifyVolumeGroupMembership", 0, id, of...)
	require.Empty(t, k.groups(t)["tools"])
	k.requireTool(t, "c1", "ModifyVolumeGroupMembership", 1, "code = NotFound", append(of, "-volumeids=hv-00000000-0000-0000-0000-000000000000")...)
	k.requireTool(t, "c1", "CreateVolumeGroup", 1, "code = InvalidArgument", append(create, "-parameters=site=B")...)
	k.requireTool(t, "c1", "ControllerGetVolumeGroup", 1, "code = Unauthenticated", "-secret="+namespace+"/wrong", of[1])
	k.requireTool(t, "c1", "CreateVolumeGroup", 1, "secret should be specified", create[1:]...)
	k.requireTool(t, "n1", "CreateVolumeGroup", 1, "code = Unimplemented", create...)
	for range 2 { // a deletion that is repeated is one
		k.requireTool(t, "c3", "DeleteVolumeGroup", 0, "Volume Group Deleted", of...)
	}
	k.requireTool(t, "c1", "ControllerGetVolumeGroup", 1, "code = NotFound", of...)
	require.NoError(t, k.co.Delete(t.Context(), v))
}
