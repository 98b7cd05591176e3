class AddBornToAuthors < ActiveRecord::Migration[6.1]
  def change
    add_column :authors, :born, :date
    add_index :authors, :born
  end
end
