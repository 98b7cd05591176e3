class CreateTables < ActiveRecord::Migration[6.1]
  def change
    create_table :authors do |t|
      t.string :name, null: false
      t.string :email

      t.timestamps
    end
    add_index :authors, :email, unique: true

    create_table :books do |t|
      t.references :author, null: false, foreign_key: true
      t.string :title, limit: 100
      t.integer :pages
      t.jsonb :details

      t.timestamps
    end
    add_index :books, [:author_id, :title], unique: true

    create_table :items do |t|
      t.string :name
      t.integer :value
    end

    create_table :counters do |t|
      t.string :name
      t.integer :n, default: 0, null: false
    end
    add_index :counters, :name, unique: true

    create_table :entries do |t|
      t.references :counter, null: false, foreign_key: true
      t.string :label

      t.timestamps
    end
  end
end
