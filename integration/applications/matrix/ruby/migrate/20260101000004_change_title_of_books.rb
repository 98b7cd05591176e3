class ChangeTitleOfBooks < ActiveRecord::Migration[6.1]
  def up
    change_column :books, :title, :string, limit: 200
  end

  def down
    change_column :books, :title, :string, limit: 100
  end
end
