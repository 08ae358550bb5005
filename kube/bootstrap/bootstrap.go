package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/wait"
)

// The keys of the ConfigMap.
const (
	founderKey = "founder" // the id of the data folder that founds the cluster
	clusterKey = "cluster" // the cluster's id, where the ConfigMap was made again by one of its members
)

// askTimeout bounds what a folder with a log asks of the API server, which it does not need.
const askTimeout = 3 * time.Second

// Config says for which folder a decision is made.
type Config struct {
	Client    kubernetes.Interface
	Namespace string
	Name      string // of the ConfigMap
	Dir       string // the controller's data folder
	Wait      wait.Loop
}

// Decide decides whether the data folder founds the cluster, and writes it into the folder. It waits for the API server where it
// needs it, and for another process that uses the folder. An error is one of the folder, or that ctx ended.
func Decide(ctx context.Context, c Config) (Verdict, error) {
	var unlock func()
	err := c.Wait.Until(ctx, func(context.Context) (err error) {
		unlock, err = lock(c.Dir)
		if err != nil && !errors.Is(err, errInUse) {
			return wait.Stop(err)
		}
		return err
	})
	if err != nil {
		return Verdict{}, err
	}
	defer unlock()
	return c.decide(ctx)
}

func (c Config) decide(ctx context.Context) (Verdict, error) {
	cluster, err := clusterIn(c.Dir)
	if err != nil {
		return Verdict{}, err
	}
	v, err := identify(c.Dir)
	if err != nil {
		return Verdict{}, err
	}
	if cluster != "" {
		v.Bootstrap = false
		if err := writeVerdict(c.Dir, v); err != nil {
			return Verdict{}, err
		}
		c.remind(ctx, cluster)
		return v, nil
	}
	founder, err := c.claim(ctx, v.ID)
	if err != nil {
		return Verdict{}, err
	}
	v.Bootstrap = founder == v.ID
	c.explain(v)
	return v, writeVerdict(c.Dir, v)
}

// claim returns the id of the folder that founds the cluster, this one's where the ConfigMap was not there yet.
func (c Config) claim(ctx context.Context, id string) (founder string, err error) {
	err = c.Wait.Until(ctx, func(ctx context.Context) error {
		record, err := c.get(ctx)
		if apierrors.IsNotFound(err) {
			record, err = c.create(ctx, map[string]string{founderKey: id})
		}
		if apierrors.IsAlreadyExists(err) { // another one was first
			record, err = c.get(ctx)
		}
		if err != nil { // also where it is not known what came of it: it is read again
			return fmt.Errorf("ask who founds the cluster: ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
		}
		founder = record.Data[founderKey]
		return nil
	})
	return founder, err
}

func (c Config) get(ctx context.Context) (*corev1.ConfigMap, error) {
	return c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
}

// create makes the ConfigMap, which nobody can change from then on.
func (c Config) create(ctx context.Context, data map[string]string) (*corev1.ConfigMap, error) {
	immutable := true
	return c.Client.CoreV1().ConfigMaps(c.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace,
			Labels:      map[string]string{"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/managed-by": "holdfast"},
			Annotations: map[string]string{"holdfast.storage/about": "Says which data folder founded the cluster, so that no other one does. Remove it only with all data of the cluster."}},
		Data: data, Immutable: &immutable,
	}, metav1.CreateOptions{})
}

// remind makes the ConfigMap again where it is missing, with no founder: this folder shows that there is a cluster already. It is
// one attempt, because the folder founds nothing in any case.
func (c Config) remind(ctx context.Context, cluster string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c.Wait.Log.Info("this data folder holds the log of a cluster: the controller goes on with it", "cluster", cluster)
	record, err := c.get(ctx)
	if apierrors.IsNotFound(err) {
		c.Wait.Log.Warn("the ConfigMap that says that the cluster was founded is missing, and is made again", "configmap", c.Namespace+"/"+c.Name)
		record, err = c.create(ctx, map[string]string{clusterKey: cluster})
	}
	switch {
	case err != nil:
		c.Wait.Log.Warn("cannot look at the ConfigMap that says that the cluster was founded; the controller goes on without it", "configmap", c.Namespace+"/"+c.Name, "why", err.Error())
	case record.Data[clusterKey] != "" && record.Data[clusterKey] != cluster:
		c.Wait.Log.Warn("the ConfigMap is of another cluster than this data folder: is it another installation's disk?", "configmap", c.Namespace+"/"+c.Name, "cluster", cluster, "other", record.Data[clusterKey])
	}
}

func (c Config) explain(v Verdict) {
	if v.Bootstrap {
		c.Wait.Log.Info("this data folder founds the cluster, as soon as all other controllers said that they know none", "folder", v.ID)
		return
	}
	c.Wait.Log.Warn("this data folder is empty and another one founded the cluster: the controller joins it. "+
		"A controller that lost its disk is taken in by `holdfast members replace NAME`. "+
		"Only if the cluster and all its data are given up, remove the ConfigMap and restart the controllers", "folder", v.ID, "configmap", c.Namespace+"/"+c.Name)
}
