package sqlstore

import (
	"crypto/rand"
	"fmt"

	"gorm.io/gorm"

	"shardid/model"
)

// makeSecret gives the deployment its secret, of 260 random bits, unless it has one. It is
// made here and not by the server: a replica that repeats statements would make another.
func makeSecret(tx *gorm.DB) error {
	return write(tx, "make the secret of scrambled apps",
		"UPDATE "+deploymentTable+" SET scramble_secret = ? WHERE scramble_secret = ''", rand.Text()+rand.Text())
}

// unknownSecret stands for the secret of a lost deployment whose place the database took: operators write it, as
// docs/operations.md says. Scrambled apps that the database has are refused with it, and none is added.
const unknownSecret = "unknown"

// scrambleRow is a scrambled app, with the deployment's secret.
type scrambleRow struct {
	AppID          int64
	SecretSum      string // of the secret that the app was made with
	ScrambleSecret string
}

// check refuses, with model.ErrInvalidArgument, a secret that is not the one IDs were
// issued with: they would repeat.
func (r scrambleRow) check() error {
	if digest(r.ScrambleSecret) == r.SecretSum {
		return nil
	}
	return fmt.Errorf("%w: restore scramble_secret of %s from a backup: it is not the one that the IDs of the "+
		"scrambled app %d were issued with", model.ErrInvalidArgument, deploymentTable, r.AppID)
}

// scrambled are the apps whose IDs are scrambled. It must follow the statement that read
// the apps' rows: a row of shardid_scramble is made with its app and never removed.
func scrambled(tx *gorm.DB) (map[int64]scrambleRow, error) {
	found, err := query[[]scrambleRow](tx, "read which apps are scrambled",
		"SELECT s.app_id, s.secret_sum, d.scramble_secret FROM "+scrambleTable+
			" AS s CROSS JOIN "+deploymentTable+" AS d")
	apps := make(map[int64]scrambleRow, len(found))
	for _, row := range found {
		apps[row.AppID] = row
	}
	return apps, err
}

// keepScramble notes that a new app is scrambled, or refuses, with model.ErrRefused, an app of which IDs of the other
// kind may have been issued. A replica gives those of one that wasDeleted until it reads the apps again.
func keepScramble(tx *gorm.DB, made model.AppSummary, wasDeleted bool) error {
	apps, err := scrambled(tx)
	if err != nil {
		return err
	}
	row, before := apps[int64(made.ID)]
	switch {
	case before && made.Scramble:
		return row.check()
	case before:
		return fmt.Errorf("%w: %w: app %d had scrambled IDs before it was deleted, which plain ones could repeat",
			model.Do("add it with `scramble`"), model.ErrRefused, made.ID)
	case !made.Scramble:
		return nil
	case wasDeleted || made.TotalIndices > 0: // what a copy may lack is for the operator to know
		return fmt.Errorf("%w: %w: app %d may have had plain IDs before it was deleted, which scrambled ones repeat",
			model.Do("use an app ID that was never used"), model.ErrRefused, made.ID)
	}
	if err := makeSecret(tx); err != nil {
		return err
	}
	var deployment, secret string
	if err := tx.Raw("SELECT deployment, scramble_secret FROM "+deploymentTable).Row().
		Scan(&deployment, &secret); err != nil {
		return fmt.Errorf("read the secret of scrambled apps: %w", err)
	}
	if secret == unknownSecret {
		return fmt.Errorf("%w: %w: this database took the place of deployment %s, whose secret of scrambled apps it "+
			"does not have", model.Do("set scramble_secret of %s to the one of a backup, or to '' if that deployment "+
			"never had a scrambled app", deploymentTable), model.ErrRefused, deployment)
	}
	return write(tx, "note that the app is scrambled", "INSERT INTO "+scrambleTable+" (app_id, secret_sum) "+
		"VALUES (?, ?)", made.ID, digest(secret))
}
