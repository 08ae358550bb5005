package raftnode

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// checkTarget compares the target with this member. One that does not know its cluster
// yet is told by the id alone, which is random and never used twice: who knows the id of
// a new member has it from its Join, or from an operator's visit. The first cluster that
// names it is its cluster for ever.
func (j *joiner) checkTarget(t *raftpb.Target) error {
	cluster := j.storage.clusterID()
	switch {
	case t.GetMemberId() != j.id:
		return fmt.Errorf("this is member %s, not %s", j.id, t.GetMemberId())
	case cluster == "" && t.GetClusterId() == "":
		return errors.New("the connection names no cluster")
	case cluster == "" && j.bootstrapper.bootstrapping.Load():
		return errors.New("this member is to make a cluster of its own")
	case cluster == "" && !j.inConfiguration():
		return j.recordClusterID(t.GetClusterId())
	case cluster != "" && t.GetClusterId() != cluster:
		return fmt.Errorf("this member belongs to cluster %s, not %s", cluster, t.GetClusterId())
	}
	return nil
}

// checkUntargeted: only while a build that names nobody may be a member, and only
// after the cluster said that this member is one, under the id that it has.
func (j *joiner) checkUntargeted() error {
	if level := j.machine.cluster().FeatureLevel; level >= fsm.Level2 {
		return fmt.Errorf("at feature level %d a connection names its member: upgrade the controller that dials", level)
	}
	if !j.joined.Load() && !j.inConfiguration() {
		return errors.New("this member is in no configuration that it knows")
	}
	return nil
}
